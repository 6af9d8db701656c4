"""The contract of a block: a function from a call to a message, and a model of its arguments.

A block receives the same values as Kilroy's webhook handlers (contracts/kilroy.md A1.3). Kilroy is
the product whose bundles Memrelay runs. The names differ:

    tagentname  call.agent.name        name under which the agent publishes
    tusername   call.agent.username
    tid         call.message.id        repeated by `call.reply`
    tpublish    call.agent.publishes   applied by the worker
    targs       args                   validated once, at deploy
    args        call.message.args      blocks read the first text, `call.text`
    from        call.message.sender
"""

from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Protocol,
    Self,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

import orjson
from msgspec import Struct
from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
)

from memrelay.blocks.patterns import Pattern
from memrelay.bus.message import JSON, PLAIN, Message, Part, envelope_limit
from memrelay.memory.engine.models import load
from memrelay.memory.field_descriptions import DescribedModel

if TYPE_CHECKING:
    from memrelay.client.nouns import EmbeddedNouns
    from memrelay.guarded_http.rules import OutgoingRules
    from memrelay.memory.engine.open_for_read import ReadOnlyStore
    from memrelay.memory.engine.store import Transaction
    from memrelay.memory.operations import Reads
else:

    class EmbeddedNouns:
        """The operations as methods, loaded when a block first uses one (blocks/nouns.py)."""

        __slots__ = ()

        def __getattr__(self, name: str) -> Any:
            return self.find_noun(name)


@dataclass(frozen=True, slots=True)
class Agent:
    """The agent that calls a block, as its bundle declares it."""

    pipeline: str  # UID
    alias: str
    name: str  # sender of its messages
    username: str
    publishes: bool
    swarm: str = ""  # swarm that it listens on; "" if none
    # Usernames of the pipeline's agents that are not chats, itself included.
    programs: frozenset[str] = frozenset()
    timezone: str = ""  # of its queries; never empty in a checked bundle


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits for every block. `message_bytes` is the maximum size of an envelope."""

    message_bytes: int


class Ids(Protocol):
    """Makes record ids that are the same in a replay, and opens further stores."""

    def new_guid(self, alias: str) -> str:
        """Return the next guid of the agent `alias` in this cascade."""

    def open_for_read(self, memory_id: str) -> "ReadOnlyStore":
        """Return another store of the pipeline, for reads. Raises Refused."""

    def secret(self, reference: str) -> str:
        """Return the value of a secret. Raises LookupError."""

    def next_deferred_call_id(self) -> str:
        """Return the id of a deferred call that the block returns now."""

    @property
    def input_id(self) -> str:
        """Return the id of the input that led to the message."""


@dataclass(frozen=True, slots=True)
class DeferredCall:
    """A request that waits, such as one to an HTTP service. The block is called again with the
    result.

    `request` is any JSON value. Deferred calls of one agent with the same `order` run one after the
    other, in the order of their messages.
    """

    request: Any
    order: str = ""


class Got(Struct, frozen=True):
    """The outcome of a deferred call: the `value` that its executor returned, or an `error`."""

    deferred_call_id: str
    value: Any = None
    error: str = ""  # "" if it succeeded
    code: str = ""  # of the error, such as `timeout`; "" for any other


class Call(Struct, EmbeddedNouns, gc=False):
    """One message for one agent. The operations on its store are methods, such as
    `call.records.create`.

    `now_ms` is the time when the input entered the bus, Unix ms; a replay has the same time. `tx`
    is the open transaction of the block's store, None without a store. `got` is the result of the
    block's deferred call, None if it has none yet.
    """

    agent: Agent
    message: Message
    now_ms: int
    limits: Limits
    ids: Ids
    # Typed without None: a block knows from its arguments whether it has a store.
    tx: "Transaction" = None  # type: ignore[assignment]
    got: Got | None = None
    # The reads of an agent with `receipts`, to which its block adds. None for others.
    reads: "Reads | None" = None

    def find_noun(self, name: str) -> Any:
        """Return the operations on a noun, such as `records`. Raises AttributeError."""
        find: Callable[[Call, str], Any] = load("memrelay.blocks.nouns:find_noun")
        return find(self, name)

    @property
    def deferred_call_id(self) -> str:
        """Return the id of the deferred call whose result the block got, or "". It is the same
        after a crash, so a service can recognize a repeated request by it."""
        return "" if self.got is None else self.got.deferred_call_id

    @property
    def next_deferred_call_id(self) -> str:
        """Return the id that a DeferredCall gets if the block returns one now. A replay returns the
        same one."""
        return self.ids.next_deferred_call_id()

    @property
    def text(self) -> str:
        """Return the text of the message, or ""."""
        return self.message.text

    @property
    def part(self) -> dict[str, Any]:
        """Return the first part of the message with all fields, unknown ones included.

        `user_id` and `session_id` are present only if a block of this pipeline has set them with
        `forward`, or if `bus.trusted_fields` has them. Keep the result: each access decodes the
        part again.
        """
        return self.message.part

    def new_guid(self) -> str:
        """Return an id for a new record. A replay returns the same one."""
        return self.ids.new_guid(self.agent.alias)

    def open_for_read(self, memory_id: str) -> "ReadOnlyStore":
        """Return another store of the pipeline, for reads; its functions accept it as `tx`.

        A replay sends the stored answer and does not read again. Raises Refused for a store that
        the bundle does not name.
        """
        return self.ids.open_for_read(memory_id)

    def secret(self, reference: str) -> str:
        """Return the secret of an argument of the type SecretReference.

        Call it at each use, so that a changed file takes effect, and keep the value out of answers,
        records and errors. Raises LookupError: the text names the reference.
        """
        return self.ids.secret(reference)

    def reply(self, text: str, kind: str = PLAIN) -> Message:
        """Return a message from the agent. `kind` is its media type.

        Raises TypeError if `text` is not a string: listeners rely on text.
        """
        if not isinstance(text, str):
            raise TypeError(
                f"the result of a block is text, not {type(text).__name__}: "
                "write call.reply(str(...)), or call.reply_json(...)"
            )
        agent = self.agent
        part = Part(agent.username, text, self.now_ms, kind)
        return Message(agent.name, self.message.id, text, kind, self.now_ms, (part,))

    def forward(self, **fields: Any) -> Message:
        """Return the message again, from the agent, with these fields set in its first part.

        Other fields and parts stay byte for byte. Raises TypeError if a field cannot be sent, and
        ValueError if the message becomes longer than `bus.max_message_bytes`.
        """
        message = self.message.with_fields(self.agent.name, fields)
        size, most = message.envelope_bytes, envelope_limit(self.limits.message_bytes)
        if size > most:
            raise ValueError(
                f"the forwarded message has {size} bytes; bus.max_message_bytes allows {most}"
            )
        return message

    def reply_json(self, value: Any) -> Message:
        """Return a message whose text is JSON."""
        return self.reply(orjson.dumps(value).decode(), JSON)

    def error(self, text: str) -> Message:
        """Return the message {"error": text}, as Kilroy's blocks report failures."""
        return self.reply_json({"error": text})


@dataclass(frozen=True, slots=True)
class Selector:
    """The texts that a block accepts. The plan matches all selectors of a swarm together."""

    pattern: Pattern
    invert: bool = False


def as_flag(value: object) -> bool:
    """Return a boolean that may be written as a word, "true" or "false" (contracts/kilroy.md A1.3).

    Raises ValueError for any other value.
    """
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if isinstance(value, bool):
        return value
    raise ValueError("must be true or false")


def _validate_reference(reference: str) -> str:
    if reference and not reference.startswith(("env:", "file:")):
        # The message omits the value, which may be the secret itself.
        raise ValueError("must be env:NAME or file:NAME: store the secret there")
    return reference


_IS_SECRET = AfterValidator(_validate_reference)
# The type of an argument that refers to a secret, "" for none. `call.secret` returns the value.
SecretReference = Annotated[
    str,
    _IS_SECRET,
    Field(json_schema_extra={"pattern": "^(env:|file:|$)", "format": "secret"}),
]


class BlockArgs(DescribedModel):
    """The keys of `wf_webhook_args` that a block accepts. Subclass it for each block.

    An unknown key is an error at deploy. The docstring below a key is its description in
    docs/blocks.md.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, str_max_length=65536)

    # Arguments with templates, whose length a deploy bounds before it compiles them.
    template_arguments: ClassVar[tuple[str, ...]] = ()

    @field_validator("*", mode="before")
    @classmethod
    def _flags_are_booleans_and_other_fields_are_not(cls, value: Any, about: ValidationInfo) -> Any:
        kind = cls.model_fields[str(about.field_name)].annotation
        kinds = {*get_args(kind)} - {NoneType} if get_origin(kind) in (Union, UnionType) else {kind}
        if kinds == {bool}:
            return as_flag(value)
        if isinstance(value, bool) and not kinds & {bool, Any, object}:
            raise ValueError("must not be true or false")
        return value

    @property
    def store(self) -> str:
        """Return the `memory_id` of the block's store, or ""."""
        return ""

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the references in the arguments of the type SecretReference."""
        fields = type(self).model_fields.items()
        values = [getattr(self, name) for name, field in fields if _IS_SECRET in field.metadata]
        return tuple(value for value in values if value)

    @property
    def secret_hosts(self) -> dict[str, str]:
        """Return the host that gets each of `secrets`, as far as it is known.

        If `outgoing.secrets` lists such a secret, it goes to the hosts there only.
        """
        return {}

    @property
    def sent_secrets(self) -> tuple[tuple[str, str], ...]:
        """Return references of secrets, each with the host that gets it, "" if that is not known.

        `outgoing.secrets` must list them.
        """
        return ()

    @property
    def only_store(self) -> str:
        """Return the block's only store, a built-in one; "" for any store."""
        return ""

    @property
    def default_store(self) -> str:
        """Return the block's store if it has no `memory_id`; "" for no store."""
        return ""

    @property
    def embeds(self) -> bool:
        """Return whether the block needs vectors of its store."""
        return False

    def in_language(self, language: str) -> Self:
        """Return the arguments for a store of that language, as `stores` in the bundle sets it."""
        return self

    @property
    def selector(self) -> Selector | None:
        """Return the selector of texts; None for all texts."""
        return None

    def warnings(self) -> list[str]:
        """Return a sentence for each setting that is valid but probably a mistake."""
        return []


class Transient(Exception):
    """Raised by a block that cannot do its work now.

    The worker rolls back the effects of the message and calls the block again after `after_s`
    seconds, at most five minutes. Without `after_s` the pause doubles each time. After
    `worker.retries` retries the message becomes a dead letter. With `counts=False` a retry does not
    count, so the block must stop by itself.
    """

    # For subclasses that do not call `__init__`.
    after_s: float | None = None
    counts = True

    def __init__(self, reason: str, after_s: float | None = None, *, counts: bool = True) -> None:
        super().__init__(reason)
        self.after_s, self.counts = None if after_s is None else float(after_s), counts


Shared = TypeVar("Shared")


class RunningCall(Protocol):
    """A deferred call while its executor runs."""

    @property
    def id(self) -> str:
        """Return its id. It stays the same if a crash makes the worker repeat the deferred call, so
        send it to services as the idempotency key."""

    @property
    def actor(self) -> str:
        """Return the name of the agent whose block has asked for it."""

    @property
    def pipeline(self) -> str:
        """Return the uid of the pipeline."""

    @property
    def outgoing(self) -> "OutgoingRules":
        """Return the rules for requests, for a GuardedClient."""

    @property
    def may_call_private(self) -> bool:
        """Return whether it may call services at private addresses (`agents.private`)."""

    @property
    def hop(self) -> int:
        """Return the number of messages that led to it."""

    @property
    def attempts(self) -> int:
        """Return how often it was repeated because it raised Transient."""

    def secret(self, reference: str) -> str:
        """Return the secret of a reference in the request, as `Call.secret` does."""

    def secret_for(self, reference: str, host: str) -> str:
        """Return a secret that `outgoing.secrets` allows to send to a host, "" for any host.

        Raises LookupError: the text names the reference.
        """

    async def operate(
        self,
        name: str,
        given: Mapping[str, Any],
        *,
        store: str = "",
        key: str = "",
        as_of: str = "",
    ) -> Any:
        """Call an operation of the pipeline, as `AsyncCall.operate` does."""

    async def share(
        self, key: str, open_it: Callable[[], AbstractAsyncContextManager[Shared]]
    ) -> Shared:
        """Return what `open_it` has opened under this key, such as a client with its connections.

        All deferred calls of the worker share it. It is closed when the worker ends.
        """


Handle = Callable[[Call, Any], Message | DeferredCall | None]
# An async function (request, deferred_call) -> result, which is any JSON value.
Executor = Callable[[Any, RunningCall], Coroutine[Any, Any, Any]]


@dataclass(frozen=True, slots=True)
class AsyncBlock:
    """A block that is an `async def` function. Each call of it is a deferred call.

    It takes an AsyncCall. If it is not `ordered`, calls of one agent run at the same time.
    """

    handle: Callable[[Any, Any], Coroutine[Any, Any, Message | None]]
    ordered: bool = True


@dataclass(frozen=True, slots=True)
class Block:
    """A registered block. `handle(call, args)` returns a message, or None to publish nothing.

    `handle` is None for a block that shows or sends messages outside of a cascade. A block with
    deferred calls has an `executor`: a function, its place as "module:function", or the block
    itself.
    """

    name: str
    args: type[BlockArgs]
    handle: Handle | None
    executor: Executor | str | AsyncBlock | None = None
