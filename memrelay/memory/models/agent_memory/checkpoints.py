"""Fields that the operations on checkpoints share, and the bytes that calls bring in base64."""

from base64 import b64decode, b64encode
from binascii import Error
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import orjson
from pydantic import ConfigDict, Field

from memrelay.memory.engine.split_texts import MAX_CHARACTERS, SplitTexts
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment, format_time
from memrelay.memory.errors import Refused
from memrelay.memory.models.agent_memory.checkpoint_table import (
    LATEST_ID,
    Checkpoint,
    CheckpointTable,
    Outline,
    Write,
    from_text,
    prune_thread,
    to_text,
)
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.data import LARGEST

MAX_NAME = 512
MAX_KEYS = 1000
Name = Annotated[str, Field(max_length=MAX_NAME)]
GivenName = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
Names = Annotated[tuple[GivenName, ...], Field(max_length=MAX_KEYS)]
Size = Annotated[int, Field(ge=0, le=MAX_CHARACTERS)]
Upload = Annotated[str, Field(max_length=64)]
MAX_CHANNELS = 10_000
MAX_PARTS = 1_000_000
Count = Annotated[int, Field(ge=0, le=MAX_PARTS)]
# [bytes] of a new part, or [first, count] of parts of the base.
Part = Annotated[tuple[Size, ...], Field(min_length=1, max_length=2)]
MOST = 1000
MAX_WRITES = 10_000
Index = Annotated[int, Field(ge=-(1 << 31), le=1 << 31)]


def keep_piece(tx: Transaction, of: str, at: int, piece: str) -> bool:
    """Keep a piece of the data of a later call. Return whether it follows the earlier ones."""
    if not of:
        raise Refused("a piece needs `of`, a random name for the pieces of one call")
    return tx.table(SplitTexts).keep(of, at, piece)


def take_data(tx: Transaction, of: str, at: int, data: str) -> bytes | None:
    """Return the bytes of earlier pieces and of `data`, None if pieces are missing.

    Raises Refused: they are not base64.
    """
    beginning = tx.table(SplitTexts).take(of) if at else ""
    if len(beginning) != at:
        return None
    try:
        return b64decode(beginning + data, validate=True)
    except Error as error:
        raise Refused(f"`data` is not base64: {error}") from error


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    """Return the consecutive values of these sizes. Raises Refused: they do not fit the data."""
    if sum(sizes) != len(data):
        raise Refused(f"`data` has {len(data)} bytes, but the sizes add up to {sum(sizes)}")
    values, at = [], 0
    for size in sizes:
        values.append(data[at : at + size])
        at += size
    return values


def to_base64(data: bytes) -> str:
    """Return bytes as base64."""
    return b64encode(data).decode()


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel with a value."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", use_attribute_docstrings=True
    )
    name: Name
    """Its name."""
    type: Name
    """The type that the serializer gave to its value, or to each item."""
    items: Count | None = None
    """The number of items of a list, each of which is a part; null for a value of one part."""


@dataclass(frozen=True, slots=True)
class PutCheckpoint:
    """A checkpoint. `data` has its bytes in base64: first the checkpoint, then the new parts.

    Each value begins with a byte 0, or with a byte 1 if zlib compressed the rest.
    """

    id: GivenName
    """Its id. A higher id is newer. A checkpoint with this id is replaced."""
    thread: GivenName
    """The id of the thread."""
    agent: Name = ""
    """The agent. Two agents never share a thread."""
    ns: Name = ""
    """The namespace of the checkpoint, empty for the graph itself."""
    parent: Name = ""
    """The id of the checkpoint before it; empty for none."""
    type: Name = "msgpack"
    """The type that the serializer gave to the checkpoint without the values of its channels."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """The metadata, whose `run_id` names the run."""
    channels: Annotated[tuple[Channel, ...], Field(max_length=MAX_CHANNELS)] = ()
    """The channels with a value."""
    size: Size = 0
    """The number of bytes of the checkpoint without the values of its channels."""
    parts: Annotated[tuple[Part, ...], Field(max_length=MAX_PARTS)] = ()
    """The values of the channels, in order: `[bytes]` for a new part, `[first, count]` for parts
    of the base."""
    base: Name = ""
    """The `mark` of a checkpoint of the same thread and namespace, whose parts are used again."""
    data: str = ""
    """The bytes in base64, or the end of them after earlier pieces."""
    piece: str = ""
    """Instead of a checkpoint: a piece of this base64 text, for a later call."""
    at: Size = 0
    """The number of characters in earlier pieces."""
    of: Upload = ""
    """A random name for the pieces of one checkpoint."""


@dataclass(frozen=True, slots=True)
class PutResult:
    """The result."""

    stored: bool
    """Whether the checkpoint or the piece was stored. If not, the base or earlier pieces are gone:
    send the whole checkpoint without a base."""
    mark: str
    """The `base` for later checkpoints; empty for a piece."""


@operation("checkpoints.put", access="write", mutates=True, home="memories", any_store=True)
def put(tx: Transaction, given: PutCheckpoint, context: Context) -> PutResult:
    """Store a checkpoint. It shares the parts that its base has already.

    Raises Refused: when `data` does not fit the sizes, or the parts do not fit the channels.
    """
    if given.piece:
        return PutResult(keep_piece(tx, given.of, given.at, given.piece), "")
    if given.id == LATEST_ID:
        raise Refused(f"the id of a checkpoint cannot be {LATEST_ID!r}; use a uuid")
    data = take_data(tx, given.of, given.at, given.data)
    known = _known_parts(tx, given)
    if data is None or known is None:
        return PutResult(False, "")
    checkpoint, *values = cut(data, [given.size, *(one[0] for one in given.parts if len(one) == 1)])
    new = iter(tx.table(CheckpointTable).add_values(given.agent, given.thread, values))
    numbers = _numbers(given.parts, known, new)
    _check_channels(given.channels, len(numbers))
    stored = Checkpoint(
        given.agent,
        given.thread,
        given.ns,
        given.id,
        given.parent,
        given.type,
        checkpoint,
        orjson.dumps(given.metadata).decode(),
        str(given.metadata.get("run_id") or ""),
        context.now_ms,
        orjson.dumps([[one.name, one.type, one.items] for one in given.channels]).decode(),
        to_text(numbers),
    )
    tx.table(CheckpointTable).put(stored)
    return PutResult(True, stored.mark)


def _known_parts(tx: Transaction, given: PutCheckpoint) -> list[int] | None:
    """Return the numbers of the parts of the base, None if it has changed or is gone."""
    if not given.base:
        return []
    found = tx.table(CheckpointTable).find(
        given.agent, given.thread, given.ns, given.base.rpartition(":")[0]
    )
    return from_text(found.numbers) if found is not None and found.mark == given.base else None


def _numbers(parts: tuple[Part, ...], known: list[int], new: Any) -> list[int]:
    numbers: list[int] = []
    for part in parts:
        if len(part) == 1:
            numbers.append(next(new))
            continue
        first, count = part
        if first + count > len(known):
            raise Refused(f"the base has {len(known)} parts, not {first + count}")
        numbers += known[first : first + count]
    return numbers


def _check_channels(channels: tuple[Channel, ...], count: int) -> None:
    wanted = sum(1 if one.items is None else one.items for one in channels)
    if wanted != count:
        raise Refused(f"the channels have {wanted} parts, but {count} were given")


@dataclass(frozen=True, slots=True)
class GetCheckpoint:
    """The checkpoint to return."""

    id: GivenName
    """Its id; `latest` for the checkpoint with the highest id."""
    thread: GivenName
    """The id of the thread."""
    agent: Name = ""
    """The agent."""
    ns: Name = ""
    """The namespace of the checkpoint."""
    known: Name = ""
    """The `mark` of a checkpoint whose parts the caller has. Its parts are not returned."""
    at: Size = 0
    """The bytes of `data` that earlier calls returned, when one answer cannot hold them."""


@dataclass(frozen=True, slots=True)
class StoredWrite:
    """A write that follows the checkpoint."""

    task: str
    """The id of the task."""
    path: str
    """The path of the task."""
    idx: int
    """Its place among the writes of the task."""
    channel: str
    """The channel."""
    type: str
    """The type that the serializer gave to the value."""
    size: int
    """The number of bytes of the value."""


@dataclass(frozen=True, slots=True)
class FoundCheckpoint:
    """A checkpoint, or only the writes of one that does not exist.

    `data` has bytes in base64: the checkpoint, its parts, and the values of the writes. Each value
    begins with a byte 0, or with a byte 1 if zlib compressed the rest.
    """

    found: bool
    """Whether the checkpoint exists."""
    id: str
    """Its id."""
    parent: str
    """The id of the checkpoint before it; empty for none."""
    type: str
    """The type that the serializer gave to the checkpoint without the values of its channels."""
    metadata: dict[str, Any]
    """The metadata."""
    created_at: Moment | None
    """The time at which it was stored; null if it does not exist."""
    mark: str
    """The `base` for later checkpoints. It differs if the checkpoint is replaced."""
    channels: tuple[Channel, ...]
    """The channels with a value, in the order of the parts."""
    sizes: tuple[int, ...]
    """The number of bytes of the checkpoint and of each part; of the checkpoint alone if the caller
    has the parts."""
    writes: tuple[StoredWrite, ...]
    """The writes that follow it, in the order in which LangGraph applies them."""
    total: int
    """The number of all bytes."""
    data: str
    """The bytes from `at`, in base64. Call again with a higher `at` while bytes are missing."""


@operation("checkpoints.get", access="read", mutates=False, home="memories", any_store=True)
def get(tx: Transaction, wanted: GetCheckpoint, context: Context) -> FoundCheckpoint:
    """Return a checkpoint with its values and the writes that follow it."""
    found = tx.table(CheckpointTable).find(wanted.agent, wanted.thread, wanted.ns, wanted.id)
    key = (wanted.agent, wanted.thread, wanted.ns, wanted.id) if found is None else found.key
    values = [] if found is None else [found.checkpoint]
    if found is not None and found.mark != wanted.known:
        values += tx.table(CheckpointTable).values(found)
    writes = tx.table(CheckpointTable).writes(key)
    data = b"".join([*values, *(one.value for one in writes)])
    # The other half is for base64 and the other fields.
    room = max(context.result_bytes // 2, 1)
    return FoundCheckpoint(
        found is not None,
        key[3],
        "" if found is None else found.parent,
        "" if found is None else found.type,
        {} if found is None else orjson.loads(found.metadata),
        None if found is None else format_time(found.created_at),
        "" if found is None else found.mark,
        () if found is None else tuple(Channel(*one) for one in orjson.loads(found.channels)),
        tuple(map(len, values)),
        tuple(_write_view(one) for one in writes),
        len(data),
        to_base64(data[wanted.at : wanted.at + room]),
    )


def _write_view(one: Write) -> StoredWrite:
    return StoredWrite(one.task, one.path, one.idx, one.channel, one.type, len(one.value))


@dataclass(frozen=True, slots=True)
class ListCheckpoints:
    """The checkpoints to list, and the page."""

    thread: Name | None = None
    """Only this thread; null for all."""
    agent: Name | None = None
    """Only this agent; null for all."""
    ns: Name | None = None
    """Only this namespace; null for all."""
    before: Name = ""
    """Only checkpoints with a lower id."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """Only checkpoints whose metadata has these values."""
    limit: Annotated[int, Field(ge=1, le=MOST)] = 50
    """The maximum number of checkpoints."""
    offset: Annotated[int, Field(ge=0, le=LARGEST)] = 0
    """The number of checkpoints to skip."""


@dataclass(frozen=True, slots=True)
class CheckpointView:
    """A checkpoint without its values."""

    agent: str
    """The agent."""
    thread: str
    """The id of the thread."""
    ns: str
    """The namespace."""
    id: str
    """The id of the checkpoint."""
    parent: str
    """The id of the checkpoint before it; empty for none."""
    metadata: dict[str, Any]
    """The metadata."""
    created_at: Moment
    """The time at which it was stored."""
    size: int
    """The stored bytes of the checkpoint with its values. Checkpoints of a thread share values."""


@dataclass(frozen=True, slots=True)
class CheckpointPage:
    """A page of checkpoints, by id from the highest."""

    items: tuple[CheckpointView, ...]
    total: int
    """The number of all checkpoints that match."""


@operation("checkpoints.list", access="read", mutates=False, home="memories", any_store=True)
def list_checkpoints(tx: Transaction, wanted: ListCheckpoints, context: Context) -> CheckpointPage:
    """List checkpoints without their values, the newest first."""
    table = tx.table(CheckpointTable)
    agents = table.agents() if wanted.agent is None else [wanted.agent]
    total, page = 0, []
    for one in table.select(
        agents=agents, thread=wanted.thread, ns=wanted.ns, before=wanted.before
    ):
        if wanted.metadata and not _fits(one, wanted.metadata):
            continue
        if wanted.offset <= total < wanted.offset + wanted.limit:
            page.append(one)
        total += 1
    return CheckpointPage(tuple(_view(one, table.size(one)) for one in page), total)


def _fits(one: Outline, wanted: dict[str, Any]) -> bool:
    metadata = orjson.loads(one.metadata)
    return all(key in metadata and metadata[key] == value for key, value in wanted.items())


def _view(one: Outline, size: int) -> CheckpointView:
    metadata = orjson.loads(one.metadata)
    return CheckpointView(*one.key, one.parent, metadata, format_time(one.created_at), size)


@dataclass(frozen=True, slots=True)
class WriteToStore:
    """A write."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", use_attribute_docstrings=True
    )
    idx: Index
    """Its place among the writes of the task. It is negative for a special channel, which is
    replaced; of other writes with one place the first is kept."""
    channel: Name
    """The channel."""
    type: Name
    """The type that the serializer gave to the value."""
    size: Size
    """The number of bytes of the value."""


@dataclass(frozen=True, slots=True)
class WriteCheckpoint:
    """Writes of a task. `data` has the bytes of their values in base64, in order.

    Each value begins with a byte 0, or with a byte 1 if zlib compressed the rest.
    """

    id: GivenName
    """The id of the checkpoint. It need not exist."""
    thread: GivenName
    """The id of the thread."""
    task: Name
    """The id of the task."""
    agent: Name = ""
    """The agent."""
    ns: Name = ""
    """The namespace of the checkpoint."""
    path: Annotated[str, Field(max_length=4096)] = ""
    """The path of the task, by which writes are sorted."""
    writes: Annotated[tuple[WriteToStore, ...], Field(max_length=MAX_WRITES)] = ()
    """The writes."""
    data: str = ""
    """The bytes in base64, or the end of them after earlier pieces."""
    piece: str = ""
    """Instead of writes: a piece of this base64 text, for a later call."""
    at: Size = 0
    """The number of characters in earlier pieces."""
    of: Upload = ""
    """A random name for the pieces of one call."""


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The result."""

    stored: bool
    """Whether the call was executed. If not, earlier pieces are gone: send them again."""
    added: int
    """The number of writes that were stored. The others existed already."""


@operation("checkpoints.write", access="write", mutates=True, home="memories", any_store=True)
def write(tx: Transaction, given: WriteCheckpoint, context: Context) -> WriteResult:
    """Store the writes of a task that follow a checkpoint.

    Raises Refused: when `data` does not fit the sizes.
    """
    if given.piece:
        return WriteResult(keep_piece(tx, given.of, given.at, given.piece), 0)
    data = take_data(tx, given.of, given.at, given.data)
    if data is None:
        return WriteResult(False, 0)
    values = cut(data, [one.size for one in given.writes])
    place = (given.agent, given.thread, given.ns, given.id, given.task)
    rows = [
        Write(*place, one.idx, given.path, one.channel, one.type, value)
        for one, value in zip(given.writes, values, strict=True)
    ]
    return WriteResult(True, tx.table(CheckpointTable).put_writes(rows))


@dataclass(frozen=True, slots=True)
class CopyThread:
    """The thread to copy."""

    source: GivenName
    """The thread to read."""
    target: GivenName
    """The thread that gets the checkpoints. Its own checkpoints stay."""
    agent: Name = ""
    """The agent of both threads."""


@dataclass(frozen=True, slots=True)
class ThreadCopied:
    """The result."""

    copied: int
    """The number of checkpoints that were copied."""


@operation("checkpoints.copy", access="write", mutates=True, home="memories", any_store=True)
def copy(tx: Transaction, given: CopyThread, context: Context) -> ThreadCopied:
    """Copy all checkpoints and writes of a thread into another thread.

    Raises Refused: when both are the same thread.
    """
    if given.source == given.target:
        raise Refused(f"thread {given.source!r} cannot be copied into itself; name another target")
    return ThreadCopied(tx.table(CheckpointTable).copy(given.agent, given.source, given.target))


@dataclass(frozen=True, slots=True)
class DeleteCheckpoints:
    """The checkpoints to delete."""

    threads: Names = ()
    """Threads, with all their checkpoints and writes."""
    ids: Names = ()
    """Ids of single checkpoints. Their children get their parents."""
    agent: Name | None = None
    """Only those of this agent; null for all."""


@dataclass(frozen=True, slots=True)
class CheckpointsDeleted:
    """The result."""

    deleted: int
    """The number of checkpoints that were deleted."""


@operation("checkpoints.delete", access="delete", mutates=True, home="memories", any_store=True)
def delete(tx: Transaction, given: DeleteCheckpoints, context: Context) -> CheckpointsDeleted:
    """Delete threads and single checkpoints with their writes. Unknown ids are ignored."""
    table, deleted = tx.table(CheckpointTable), 0
    agents = table.agents() if given.agent is None else [given.agent]
    for agent in agents:
        deleted += sum(table.delete_thread(agent, thread) for thread in given.threads)
    if given.ids:
        deleted += table.delete([one.key for one in table.with_ids(agents, given.ids)])
    return CheckpointsDeleted(deleted)


@dataclass(frozen=True, slots=True)
class ForgetRuns:
    """The runs to forget."""

    runs: Names
    """Their ids, as in the `run_id` of the metadata."""
    agent: Name | None = None
    """Only those of this agent; null for all."""


@operation("checkpoints.forget_runs", access="admin", mutates=True, home="memories", any_store=True)
def forget_runs(tx: Transaction, given: ForgetRuns, context: Context) -> CheckpointsDeleted:
    """Delete the checkpoints of runs with their writes. Unknown runs are ignored."""
    table = tx.table(CheckpointTable)
    agents = table.agents() if given.agent is None else [given.agent]
    return CheckpointsDeleted(table.delete([one.key for one in table.of_runs(agents, given.runs)]))


@dataclass(frozen=True, slots=True)
class PruneThreads:
    """The threads to prune."""

    threads: Names
    """The ids of the threads."""
    agent: Name = ""
    """The agent of the threads."""
    strategy: Literal["keep_latest", "delete"] = "keep_latest"
    """`keep_latest` keeps the newest checkpoints of each namespace, and earlier ones from which
    their values are rebuilt. `delete` deletes the threads."""
    keep: Annotated[int, Field(ge=1, le=LARGEST)] = 1
    """The number of checkpoints that `keep_latest` keeps in each namespace."""


@operation("checkpoints.prune", access="delete", mutates=True, home="memories", any_store=True)
def prune(tx: Transaction, given: PruneThreads, context: Context) -> CheckpointsDeleted:
    """Delete the old checkpoints of threads with their writes. Unknown threads are ignored."""
    table = tx.table(CheckpointTable)
    if given.strategy == "delete":
        deleted = sum(table.delete_thread(given.agent, thread) for thread in given.threads)
    else:
        deleted = sum(
            prune_thread(table, given.agent, thread, given.keep) for thread in given.threads
        )
    return CheckpointsDeleted(deleted)
