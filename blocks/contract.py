"""What a block is: a function from a call to a message, with its configuration declared beside it.

A block receives what Kilroy's webhook handlers do (contracts/kilroy.md A1.3), under these names:

    tagentname  call.agent.name        the name that it publishes under
    tusername   call.agent.username
    tid         call.message.id        echoed by `call.reply`
    tpublish    call.agent.publishes   the worker sees to it
    targs       args                   parsed and checked once, when the pipeline is deployed
    args        call.message.args      blocks read the text of the first, `call.text`
    from        call.message.sender
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, Protocol, Self, Union, get_args, get_origin

import orjson
from msgspec import Struct
from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator

from memrelay.blocks.patterns import Pattern
from memrelay.bus.message import JSON, PLAIN, Message, Part


@dataclass(frozen=True, slots=True)
class Agent:
    """The agent that a block works for, as the bundle declares it."""

    pipeline: str  # uid
    alias: str
    name: str  # publishes as
    username: str
    publishes: bool
    swarm: str = ""  # that it listens to; "" for none


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds that hold for every block."""

    message_bytes: int


class Ids(Protocol):
    """Where ids come from."""

    def new_guid(self, alias: str) -> str:
        """The next guid of the agent `alias` in this cascade."""


class Call(Struct, gc=False):
    """One message, delivered to one agent."""

    agent: Agent
    message: Message
    now_ms: int  # when the input entered the bus, so that a replay says the same
    limits: Limits
    ids: Ids  # makes ids that are the same on a replay
    tx: Any = None  # the store's open transaction, where the block works on one

    @property
    def text(self) -> str:
        """What was said; "" where nothing was."""
        return self.message.text

    def new_guid(self) -> str:
        """The id of a new record, the same on a replay."""
        return self.ids.new_guid(self.agent.alias)

    def reply(self, text: str, kind: str = PLAIN) -> Message:
        """An answer under the agent's own name. Raises TypeError where it is no text, which who
        hears it relies on."""
        if not isinstance(text, str):
            raise TypeError(
                f"an answer is a text, and this is {type(text).__name__}: write call.reply(str(...)), or "
                "call.reply_json(...)"
            )
        agent = self.agent
        part = Part(agent.username, text, self.now_ms, kind)
        return Message(agent.name, self.message.id, text, kind, self.now_ms, (part,))

    def reply_json(self, value: Any) -> Message:
        """An answer whose text is JSON."""
        return self.reply(orjson.dumps(value).decode(), JSON)

    def error(self, text: str) -> Message:
        """A failure, told in band as Kilroy's blocks do: {"error": "..."}."""
        return self.reply_json({"error": text})


@dataclass(frozen=True, slots=True)
class Selector:
    """Which texts a block wants to see at all. The plan matches all selectors of a swarm
    together."""

    pattern: Pattern
    invert: bool = False


def as_flag(value: object) -> bool:
    """true or false, as such or as a word, as Kilroy's bundles have them (contracts/kilroy.md
    A1.3). Raises ValueError."""
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if isinstance(value, bool):
        return value
    raise ValueError("must be true or false")


class BlockArgs(BaseModel):
    """The keys of `wf_webhook_args` that a block takes. Subclass it; an unknown key is an error at
    deploy.

    The docstring below a key is its line in docs/blocks.md.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, str_max_length=65536, use_attribute_docstrings=True
    )

    @field_validator("*", mode="before")
    @classmethod
    def _flags_are_flags_and_nothing_else_is(cls, value: Any, about: ValidationInfo) -> Any:
        kind = cls.model_fields[str(about.field_name)].annotation
        kinds = {*get_args(kind)} - {NoneType} if get_origin(kind) in (Union, UnionType) else {kind}
        if kinds == {bool}:
            return as_flag(value)
        if isinstance(value, bool) and not kinds & {bool, Any, object}:
            raise ValueError("must not be true or false")
        return value

    @property
    def store(self) -> str:
        """The `memory_id` of the store that the block works on; "" for none."""
        return ""

    @property
    def embeds(self) -> bool:
        """Whether the block wants vectors of what is in its store."""
        return False

    def in_language(self, language: str) -> Self:
        """The same for a store of that language, as the bundle says in `stores`."""
        return self

    @property
    def selector(self) -> Selector | None:
        """Which texts the block wants; None for all."""
        return None

    def warnings(self) -> list[str]:
        """What is allowed, but surely not meant."""
        return []


class Transient(Exception):
    """To be raised by a block that cannot do its work for now: what the message did is undone, and
    it is run again later."""

    after_s: float | None = None

    def __init__(self, reason: str, after_s: float | None = None, *, counts: bool = True) -> None:
        """`after_s` is when it may be worth while, up to five minutes; by default a pause that
        doubles each time.

        It is given up after `worker.retries` times, but for those that do not count: then the block
        itself comes to an end.
        """
        super().__init__(reason)
        self.after_s, self.counts = None if after_s is None else float(after_s), counts


Handle = Callable[[Call, Any], Message | None]


@dataclass(frozen=True, slots=True)
class Block:
    """A registered block. `handle(call, args)` answers with a message, or with None to say
    nothing."""

    name: str
    args: type[BlockArgs]
    handle: Handle | None  # None: the block shows or sends messages itself, outside of a cascade
