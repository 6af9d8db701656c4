"""What a check gives: the faults, and where there are none a bundle that can be deployed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from memrelay.blocks.contract import Agent, Block, BlockArgs
from memrelay.bus.keys import PUBLIC
from memrelay.pipelines.report import Fault

# What can go wrong with pipelines.
#
# PipelineError
# └── BundleRefused   a bundle has faults; `faults` holds all of them


class PipelineError(Exception):
    """Anything that is wrong with a pipeline."""


class BundleRefused(PipelineError, ValueError):
    """A bundle that was not taken, with every reason."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        """The text holds one fault a line."""
        super().__init__("\n".join(fault.as_line() for fault in faults))
        self.faults = tuple(faults)


@dataclass(frozen=True, slots=True)
class CheckedAgent:
    """An agent, ready to be routed to."""

    agent: Agent
    rec_swarm: str  # "" where it listens to none
    send_swarm: str
    accepts: tuple[str, ...]  # for pipelines.senders.accepts; () for everybody
    block: Block
    args: BlockArgs
    calls: bool  # is the block called for what the agent hears?
    token: str = ""  # where its webhooks' token is kept; "" where they need none
    interval_ms: int = 0  # at which the block is called whatever is said; 0 for never
    secrets: tuple[
        str, ...
    ] = ()  # where the secrets are kept by which its webhooks are signed; () where they need not be

    def in_language(self, languages: Mapping[str, str]) -> Self:
        """With the language of its store."""
        language = languages.get(self.args.store)
        return self if language is None else replace(self, args=self.args.in_language(language))

    @property
    def is_guarded(self) -> bool:
        """Its webhooks need a token or a signature."""
        return bool(self.token or self.secrets)

    @property
    def is_voice(self) -> bool:
        """It says what comes to it from outside, as a chat does for its user."""
        return self.block.handle is None and self.agent.publishes

    @property
    def takes_messages(self) -> bool:
        """Something becomes of what is handed to it alone."""
        return self.calls or self.is_voice


@dataclass(frozen=True, slots=True)
class CheckedBundle:
    """A bundle without faults. Checking `source` again gives an equal one."""

    uid: str
    name: str
    description: str
    hash: str  # sha256 of `source`, in hex
    source: bytes  # canonical JSON: the bundle with its uid filled in, keys sorted
    agents: tuple[CheckedAgent, ...]
    public: tuple[str, ...] = ()  # the names of its public swarms
    languages: Mapping[str, str] = field(
        default_factory=dict
    )  # of the stores that it declares, by memory_id

    @property
    def swarms(self) -> tuple[str, ...]:
        """The names of its swarms, in the order of the agents; at the end public ones that no agent
        is on."""
        names = [name for agent in self.agents for name in (agent.rec_swarm, agent.send_swarm)]
        return tuple(dict.fromkeys(name for name in (*names, *self.public) if name))

    def home_of(self, swarm: str) -> str:
        """What stands in the key of a swarm's log and channel: the pipeline's uid, or that it is
        public."""
        return PUBLIC if swarm in self.public else self.uid


@dataclass(frozen=True, slots=True)
class Checked:
    """The outcome; `bundle` is None where there are `faults`."""

    faults: tuple[Fault, ...]
    warnings: tuple[Fault, ...]
    bundle: CheckedBundle | None

    def accepted(self) -> CheckedBundle:
        """The bundle; raises BundleRefused with all faults."""
        if self.bundle is None:
            raise BundleRefused(self.faults)
        return self.bundle
