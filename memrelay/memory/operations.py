"""Declare operations: every capability of memory, defined once and exposed by each face.

An operation is a plain function `(tx, input, context) -> output`. It runs in a database thread
inside the store's transaction. Input and output are frozen dataclasses, read from the function's
annotations. A string below a field becomes its description in the API documents.

A stepwise operation is a generator. It yields between its steps, receives the store to continue
with, and returns the output. The owner of the store may do other work in between.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, cached_property
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NamedTuple,
    Never,
    TypeVar,
    get_args,
    get_type_hints,
)

import orjson
from pydantic import ConfigDict, Field, TypeAdapter

from memrelay.memory.engine.identity import VOUCHED, Identity
from memrelay.memory.engine.memory_id import is_closed
from memrelay.memory.engine.models import list_nouns, load, modules_of
from memrelay.memory.engine.retention import REVIEW_DAYS
from memrelay.memory.engine.time_zones import DEFAULT_ZONE
from memrelay.memory.errors import Refused
from memrelay.memory.field_descriptions import declare_input

if TYPE_CHECKING:
    from memrelay.memory.engine.open_for_read import ReadOnlyStore

Access = Literal["search", "read", "write", "append", "delete", "review", "admin"]
# A store of each pipeline that holds the records of one memory model.
BuiltInStore = Literal["", "memories", "stores", "recipes", "langgraph", "endpoints"]
# The argument that selects a store of the pipeline.
STORE = "store"
# The argument that names the time whose state a call reads: a time, or `n:CHANGE`.
AS_OF = "as_of"
AS_OF_TEXT = "Read the state of then: a time in RFC 3339 or Unix ms, or a change as in n:1204."
# The input field of a read with which it leaves a receipt (docs/receipts.md).
RECEIPT = "receipt"
# Whether to leave one, or the id of the message or answer that is going to use what is found.
Receipt = bool | Annotated[str, Field(min_length=1, max_length=256)]
# The guid and the score of a record; None without a score.
Found = tuple[str, float | None]
# The input field of a changing operation that only returns what the call would do.
DRY_RUN = "dry_run"
Run = TypeVar("Run", bound=Callable[..., Any])
# Yields between steps, receives the store to continue with, and returns the output.
Steps = Generator[None, Any, Any]


def no_other_store(memory_id: str) -> Never:
    """Raise Refused: the caller has only one store open."""
    raise Refused(
        f"store {memory_id[:200]!r} cannot be read here, because only one store is open; "
        "call the operation over HTTP, the bus or the command line"
    )


def no_rehearsals(*_: object) -> Never:
    """Raise Refused: there is no worker."""
    raise Refused("only a worker runs rehearsals; call the operation over HTTP or the command line")


def no_timings(*_: object) -> Never:
    """Raise Refused: there is no worker."""
    raise Refused("only a worker knows timings; call the operation over HTTP or the command line")


def no_receipt(*_: Any) -> Never:
    """Raise Refused: receipts belong to the owner of a pipeline."""
    raise Refused(
        "only the worker of a pipeline keeps receipts; leave `receipt` out, or call the operation "
        "over HTTP, the bus or the command line"
    )


class Read(NamedTuple):
    """One read for a receipt: the operation that reads the same, its input as an object, and the
    records, best first.
    """

    operation: str
    given: dict[str, Any]
    found: Sequence[Found]
    # As the search took them; "" if the operation has none.
    mode: str = ""
    language: str = "english"


class Reads(list[Read]):
    """The reads of one message, of an agent with receipts."""

    def note(self, operation: "Operation", tx: Any, given: Any, output: Any) -> None:
        """Add the call of an operation, if such calls leave receipts."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Context:
    """Values that the store's owner, and not the caller, passes to an operation."""

    # Time at which the call entered the bus, Unix ms. A replay has the same time.
    now_ms: int
    # The caller, as the face identifies it.
    actor: str
    # Approximate size limit of the result, bytes.
    result_bytes: int
    # Returns the same ids on a replay.
    new_guid: Callable[[], str]
    # Language of the store: one of search/text/languages.py.
    language: str = "english"
    # Whether a changing operation may raise VectorPending. It is then rolled back and runs again.
    may_wait: bool = True
    # Returns another store of the pipeline, for reads. Raises Refused for any other store.
    open_for_read: Callable[[str], "ReadOnlyStore"] = no_other_store
    # Time zone of a query that names none.
    timezone: str = DEFAULT_ZONE
    # The pipeline that is called, "" outside of a worker.
    pipeline: str = ""
    # Returns the existing stores of that pipeline for reads, each with its position among all.
    open_existing: Callable[[], Iterable[tuple[int, "ReadOnlyStore"]]] = tuple
    # Returns the rehearsals of that pipeline (models/rehearsals). Raises Refused.
    rehearsals: Callable[[], Any] = no_rehearsals
    # Returns the MessageTimings of a message of that pipeline. Raises Refused.
    timings: Callable[[str], Any] = no_timings
    # Takes (operation, store, input, output, context) of a read that has to leave a receipt.
    keep_receipt: Callable[["Operation", Any, Any, Any, "Context"], None] = no_receipt
    # The values of Origin (engine/origins.py), () for the actor alone.
    origin: tuple[str, ...] = ()
    # The id of the input that brought the call, "" outside of a worker.
    input_id: str = ""
    # The reason of the changes, if the input has none.
    reason: str = ""
    # Days after which a write without a decision ends.
    review_days: float = REVIEW_DAYS


@dataclass(frozen=True, slots=True)
class CommandAccess:
    """The access to an operation whose input is a command, so that calls need different scopes."""

    # A caller needs one of these scopes for the operation.
    scopes: tuple[str, ...]
    # Returns the scope that a call with this input needs, "" for none.
    find_scope: Callable[[Mapping[str, Any]], str]
    # Returns the output of a change without stored text, for a caller that may not read.
    hide_text: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None


@dataclass(frozen=True)
class Operation:
    """The description of an operation that faces use."""

    # For example "records.create".
    name: str
    # Access that the caller needs.
    access: Access
    mutates: bool
    # Runs as an action of the caller: records that expired before its time are skipped.
    run: Callable[[Any, Any, Context], Any]
    # A frozen dataclass.
    input: type
    # A frozen dataclass or None.
    output: Any
    # First line of the function's docstring.
    summary: str
    # The store on which it runs. "" for any store, by default the first.
    store: BuiltInStore = ""
    # Input field whose text is embedded before the operation runs, if there is an embedder.
    embeds: str = ""
    # Whether it may use a closed store, because its answer has ids and no values.
    shows_ids_only: bool = False
    # Whether it can read a store as it was (engine/as_of.py).
    takes_as_of: bool = False
    # Whether `store` is only the default, and a call may name another store.
    any_store: bool = False
    # Whether it erases records, so that the owner rewrites the files afterwards.
    erases: bool = False
    # Whether the store has vectors from then on, without a text that is embedded before.
    needs_vectors: bool = False
    # Whether it imports lines, with which any records may come.
    imports: bool = False
    # Begins a stepwise operation, which `run` drives to its end; None for others. The driver calls
    # `records.set_actor` before each part.
    begin: Callable[[Any, Any, Context], Steps] | None = None
    # The access to its commands, None if every call needs `access`.
    commands: CommandAccess | None = None
    # Values of fields that /v1, the command line and Python pass if a caller names none.
    face_defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @cached_property
    def adapter(self) -> TypeAdapter[Any]:
        """Validates untrusted input. Only the edges (JSON) use it, and most operations of a process
        are never called there.
        """
        return TypeAdapter(self.input)

    @property
    def takes_store(self) -> bool:
        """Return whether a call may name the store."""
        return not self.store or self.any_store

    @property
    def has_dry_run(self) -> bool:
        """Return whether a call may ask only for what it would do."""
        return DRY_RUN in {field.name for field in fields(self.input)}

    @property
    def takes_receipt(self) -> bool:
        """Return whether a call may ask for a receipt."""
        return RECEIPT in {field.name for field in fields(self.input)}

    @property
    def noun(self) -> str:
        """The object of the operation: `records`."""
        return self.name.partition(".")[0]

    @property
    def verb(self) -> str:
        """The action of the operation: `create`."""
        return self.name.partition(".")[2]

    def check_store(self, memory_id: str) -> None:
        """Raise Refused for a closed store, unless the operation belongs to it, is for an admin or
        a reviewer, or shows no values.

        An admin can erase and import the records of any store, and a reviewer decides on writes to
        it.
        """
        is_at_built_in_store = bool(self.store) and not self.any_store
        is_privileged = self.access in ("review", "admin")
        is_allowed = is_at_built_in_store or is_privileged or self.shows_ids_only
        if is_closed(memory_id) and not is_allowed:
            raise Refused(
                f"{self.name} cannot use {memory_id}, which holds the items of agents with their "
                "access rights; use the operations of items, or another store"
            )

    @property
    def has_caller(self) -> bool:
        """Whether the input names the agent, the user and the chat that call."""
        return issubclass(self.input, Identity)


def is_dry_run(operation: Operation, data: bytes) -> bool:
    """Return whether a call with this input as JSON asks only for what it would do.

    An input that is not a JSON object does not: the operation refuses it.
    """
    if not operation.has_dry_run:
        return False
    try:
        given = orjson.loads(data)
    except orjson.JSONDecodeError:
        return False
    return isinstance(given, dict) and given.get(DRY_RUN) is True


OPERATIONS: dict[str, Operation] = {}


def operation(
    name: str,
    *,
    access: Access,
    mutates: bool,
    store: BuiltInStore = "",
    embeds: str = "",
    shows_ids_only: bool = False,
    takes_as_of: bool = False,
    any_store: bool = False,
    erases: bool = False,
    needs_vectors: bool = False,
    imports: bool = False,
    stepwise: bool = False,
    commands: CommandAccess | None = None,
    face_defaults: Mapping[str, Any] | None = None,
) -> Callable[[Run], Run]:
    """Register the decorated function as the operation `name`. Raises ValueError: the name is used
    twice.

    The function of a `stepwise` operation is a generator, annotated with `Generator`.
    """

    def declare(run: Run) -> Run:
        if name in OPERATIONS:
            raise ValueError(f"two operations are named {name!r}")
        hints = get_type_hints(run, include_extras=True)
        input_type = [hint for parameter, hint in hints.items() if parameter != "return"][1]
        takes_receipt = RECEIPT in {one.name for one in fields(input_type)}

        def run_as_actor(tx: Any, given: Any, context: Context) -> Any:
            set_actor(tx, context, getattr(given, "reason", context.reason))
            output = _finish(run(tx, given, context), tx) if stepwise else run(tx, given, context)
            if takes_receipt and given.receipt:
                context.keep_receipt(OPERATIONS[name], tx, given, output, context)
            return output

        declare_input(input_type, ConfigDict(extra="forbid"))
        OPERATIONS[name] = Operation(
            name,
            access,
            mutates,
            run_as_actor,
            input_type,
            get_args(hints["return"])[2] if stepwise else hints["return"],
            (run.__doc__ or "").partition("\n")[0],
            store,
            embeds,
            shows_ids_only,
            takes_as_of,
            any_store,
            erases,
            needs_vectors,
            imports,
            (_with_receipt(name, run) if takes_receipt else run) if stepwise else None,
            commands,
            face_defaults or {},
        )
        return run

    return declare


def set_actor(tx: Any, context: Context, reason: str = "") -> None:
    """Begin changes of a store in the name of a caller. Raises PolicyStop."""
    records, origin = tx.records, context.origin
    if reason and records.path.admit_texts:
        (reason,) = records.admit_texts("reason", (reason,))
    records.set_actor(context.now_ms, context.actor, reason, origin, context.input_id)


def _with_receipt(name: str, run: Callable[..., Steps]) -> Callable[..., Steps]:
    """Return the function of a stepwise operation, which leaves a receipt at its end."""

    def begin(tx: Any, given: Any, context: Context) -> Steps:
        output = yield from run(tx, given, context)
        if given.receipt:
            context.keep_receipt(OPERATIONS[name], tx, given, output, context)
        return output

    return begin


def _finish(steps: Steps, tx: Any) -> Any:
    """Drive a stepwise operation to its end, and return its output."""
    try:
        next(steps)
        while True:
            steps.send(tx)
    except StopIteration as end:
        return end.value


def find_operation(name: str) -> Operation | None:
    """Import only the modules of the operation's noun and return it. None if it does not exist."""
    if name not in OPERATIONS:
        for module in modules_of(name.partition(".")[0]):
            load(module)
            if name in OPERATIONS:
                break
    return OPERATIONS.get(name)


def known_operation(name: str) -> Operation:
    """Return the named operation. Raises Refused: it does not exist."""
    operation = find_operation(name)
    if operation is None:
        raise Refused(f"unknown operation {name[:200]!r}; known are {', '.join(all_operations())}")
    return operation


def operations_on(noun: str) -> list[Operation]:
    """Import only the modules of a noun and return its operations by name; [] if it has none."""
    for module in modules_of(noun):
        load(module)
    return [OPERATIONS[name] for name in sorted(OPERATIONS) if OPERATIONS[name].noun == noun]


@cache
def all_operations() -> dict[str, Operation]:
    """Import all operations and return them by name, sorted."""
    for noun in list_nouns():
        operations_on(noun)
    return dict(sorted(OPERATIONS.items()))


@cache
def input_schema(operation: Operation) -> dict[str, Any]:
    """Return the JSON schema of the fields that a caller of /v1, the command line or Python may
    send. Do not change it.
    """
    schema = operation.adapter.json_schema()
    fields = {name: field for name, field in schema["properties"].items() if name != VOUCHED}
    for name, default in operation.face_defaults.items():
        fields[name] = fields[name] | {"default": default}
    return schema | {"properties": fields, "required": schema.get("required", [])}


def positional_fields(operation: Operation) -> list[str]:
    """Return the fields that methods and commands take by position.

    These are the required ones, except the calling agent, and optional ones before the first.
    """
    schema = input_schema(operation)
    by_name = {"agent"} if operation.has_caller else set()
    fields = [name for name in schema["properties"] if name not in by_name]
    required = [name for name in fields if name in schema["required"]]
    return [*fields[: fields.index(required[0])], *required] if required else []


def selects_store(operation: Operation) -> bool:
    """Return whether callers may name the store of the bundle on which the operation runs."""
    return operation.takes_store and STORE not in input_schema(operation)["properties"]


def holds_objects(schema: dict[str, Any]) -> bool:
    """Return whether a field with that schema is a list of objects."""
    items = schema.get("items", {})
    return "$ref" in items or items.get("type") == "object"


def json_type(schema: dict[str, Any]) -> str:
    """Return the first JSON type in the schema of a field, "" if any type is valid.

    A reference is to a dataclass, whose values are objects.
    """
    for one in [schema, *schema.get("anyOf", [])]:
        if "type" in one or "$ref" in one:
            return str(one.get("type", "object"))
    return ""
