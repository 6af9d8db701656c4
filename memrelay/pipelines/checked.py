"""The result of a check: faults, or a bundle that can be deployed.

The exceptions of pipelines:

PipelineError
└── BundleRefused   a bundle has faults; `faults` contains all of them
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from memrelay.blocks.contract import Agent, Block, BlockArgs
from memrelay.blocks.templates import JsonTemplate
from memrelay.bus.keys import PUBLIC
from memrelay.memory.engine.time_zones import DEFAULT_ZONE
from memrelay.pipelines.bundle import DeclaredEndpoint
from memrelay.pipelines.cron import CronSchedule
from memrelay.pipelines.expressions import Expression
from memrelay.pipelines.flow import Flow
from memrelay.pipelines.message_checks import MessageCheck
from memrelay.pipelines.report import Fault
from memrelay.pipelines.webhook_senders import Sender


class PipelineError(Exception):
    """The base class of all errors of a pipeline."""


class BundleRefused(PipelineError, ValueError):
    """A bundle has faults. The text contains one fault per line."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("\n".join(fault.as_line() for fault in faults))
        self.faults = tuple(faults)


@dataclass(frozen=True, slots=True)
class CheckedAgent:
    """A valid agent.

    `rec_swarm` and `send_swarm` are "" if there is none. `accepts` are the accepted senders, ()
    for all. `calls` is true if the agent calls its block. `token` and `secrets` are references to
    the credentials of its webhooks. `interval_ms` is the period of its timer, 0 for none. `cron`
    is the expression of its timer, "" for none, and `catches_up` whether that runs late. `text`
    selects the text of a webhook's body, `each` its events. `webhook_bytes` limits a body, 0 for
    the default. `message_check` is its schema.

    `sender` is the declared sender of its webhooks. `verify` is the reference to Meta's verify
    token, `networks` are those that may send, () for all. `answer_wait_s` is how long its webhooks
    wait for a result, 0 for not, and `answer_template` makes their answer of it. `flow` decides
    when its block is called, None for at once. `receipts` is whether its reads leave receipts.
    """

    agent: Agent
    rec_swarm: str
    send_swarm: str
    accepts: tuple[str, ...]
    block: Block
    args: BlockArgs
    calls: bool
    token: str = ""
    interval_ms: int = 0
    secrets: tuple[str, ...] = ()
    sender: Sender | None = None
    verify: str = ""
    networks: tuple[str, ...] = ()
    answer_wait_s: float = 0.0
    answer_template: JsonTemplate | None = None
    text: Expression | None = None
    each: Expression | None = None
    webhook_bytes: int = 0
    cron: str = ""
    catches_up: bool = False
    message_check: MessageCheck | None = None
    flow: Flow | None = None
    receipts: bool = False

    def in_bundle(self, languages: Mapping[str, str], zone: str, programs: frozenset[str]) -> Self:
        """Return the agent with what the whole bundle decides.

        `languages` is by memory_id. `zone` applies to an agent without one. `programs` are the
        usernames of the agents that are not chats.
        """
        language = languages.get(self.args.store)
        args = self.args if language is None else self.args.in_language(language)
        zone = self.agent.timezone or zone
        return replace(self, agent=replace(self.agent, timezone=zone, programs=programs), args=args)

    @property
    def schedule(self) -> CronSchedule | None:
        """Return when its timer calls the block by `wf_cron`, or None."""
        return CronSchedule(self.cron, self.agent.timezone) if self.cron and self.calls else None

    @property
    def is_guarded(self) -> bool:
        """Return whether its webhooks need a token, a signature or an address."""
        needs_topic = self.sender is not None and self.sender.special == "sns"
        return bool(self.token or self.secrets or self.networks or needs_topic)

    @property
    def is_publisher(self) -> bool:
        """Return whether it publishes messages from outside, as a chat does for its user."""
        return self.block.handle is None and self.agent.publishes

    @property
    def takes_messages(self) -> bool:
        """Return whether a message to this agent has an effect."""
        return self.calls or self.is_publisher


@dataclass(frozen=True, slots=True)
class CheckedBundle:
    """A bundle without faults. Checking `source` again returns an equal bundle.

    `source` is canonical JSON: the UID is filled in and the keys are sorted. `hash` is its SHA-256
    in hex. `public` are the names of its public swarms. `languages` are those of its declared
    stores, by memory_id. `feeds` are the declared stores with a change feed, and
    `embedded` those with vectors. `timezone` is the zone of queries that name none.
    Its stores keep inputs for `inputs_days`, 0 for none, and receipts for `receipts_days`, with
    digests in place of the questions if `only_digests`, and proposals for `review_days`.
    `golden_questions` is a file, relative to that of the bundle, or "".
    `policies` and `views` are those that it declares, by memory_id.
    `message_checks` are the schemas of its swarms by name. `endpoints` are those that it declares.
    """

    uid: str
    name: str
    description: str
    hash: str
    source: bytes
    agents: tuple[CheckedAgent, ...]
    public: tuple[str, ...] = ()
    languages: Mapping[str, str] = field(default_factory=dict)
    feeds: frozenset[str] = frozenset()
    embedded: frozenset[str] = frozenset()
    timezone: str = DEFAULT_ZONE
    inputs_days: float = 0
    golden_questions: str = ""
    receipts_days: float = 30
    only_digests: bool = False
    policies: Mapping[str, tuple[dict[str, Any], ...]] = field(default_factory=dict)
    views: Mapping[str, tuple[dict[str, Any], ...]] = field(default_factory=dict)
    review_days: float = 30
    message_checks: Mapping[str, MessageCheck] = field(default_factory=dict)
    endpoints: tuple[DeclaredEndpoint, ...] = ()

    @property
    def swarms(self) -> tuple[str, ...]:
        """Return the names of its swarms: those of the agents, then other public swarms."""
        names = [name for agent in self.agents for name in (agent.rec_swarm, agent.send_swarm)]
        return tuple(dict.fromkeys(name for name in (*names, *self.public) if name))

    def swarm_owner(self, swarm: str) -> str:
        """Return the owner in the key of a swarm: the UID, or "public"."""
        return PUBLIC if swarm in self.public else self.uid


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check. `bundle` is None if there are `faults`."""

    faults: tuple[Fault, ...]
    warnings: tuple[Fault, ...]
    bundle: CheckedBundle | None

    def accepted(self) -> CheckedBundle:
        """Return the bundle. Raises BundleRefused if there are faults."""
        if self.bundle is None:
            raise BundleRefused(self.faults)
        return self.bundle
