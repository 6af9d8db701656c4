"""Checkpoints of LangGraph: their values and writes, in threads of agents."""

from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import orjson
from pydantic import Field

from memrelay.memory.engine.split_texts import MAX_CHARACTERS, SplitTexts
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment, format_time
from memrelay.memory.errors import Refused
from memrelay.memory.field_descriptions import nested_input
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
from memrelay.memory.records.paging import Limit, Offset

MAX_NAME = 512
# Bytes, or characters of base64, of one checkpoint.
MAX_DATA = 1 << 30
MAX_KEYS = 1000
MAX_CHANNELS = 10_000
MAX_PARTS = 1_000_000
MAX_WRITES = 10_000
Name = Annotated[str, Field(max_length=MAX_NAME)]
GivenName = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
Names = Annotated[tuple[GivenName, ...], Field(max_length=MAX_KEYS)]
Size = Annotated[int, Field(ge=0, le=MAX_CHARACTERS)]
Upload = Annotated[str, Field(max_length=64)]
Count = Annotated[int, Field(ge=0, le=MAX_PARTS)]
# [bytes] of a new part, or [first, count] of parts of the base.
Part = Annotated[tuple[Size, ...], Field(min_length=1, max_length=2)]
Index = Annotated[int, Field(ge=-(1 << 31), le=1 << 31)]


@nested_input
@dataclass(frozen=True, slots=True)
class Channel:
    """A channel with a value."""

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


@operation("checkpoints.put", access="write", mutates=True, store="memories", any_store=True)
def put(tx: Transaction, request: PutCheckpoint, context: Context) -> PutResult:
    """Store a checkpoint. It shares the parts that its base has already.

    Raises Refused: when `data` does not fit the sizes, or the parts do not fit the channels.
    """
    if request.piece:
        return PutResult(keep_piece(tx, request.of, request.at, request.piece), "")
    if request.id == LATEST_ID:
        raise Refused(f"the id of a checkpoint cannot be {LATEST_ID!r}; use a uuid")
    data = take_data(tx, request.of, request.at, request.data)
    base_parts = _find_base_parts(tx, request)
    if data is None or base_parts is None:
        return PutResult(False, "")
    table = tx.table(CheckpointTable)
    new_sizes = [part[0] for part in request.parts if len(part) == 1]
    checkpoint, *values = cut(data, [request.size, *new_sizes])
    new = iter(table.add_values(request.agent, request.thread, values))
    numbers = _combine_parts(request.parts, base_parts, new)
    _check_channels(request.channels, len(numbers))
    stored = Checkpoint(
        request.agent,
        request.thread,
        request.ns,
        request.id,
        request.parent,
        request.type,
        checkpoint,
        orjson.dumps(request.metadata).decode(),
        str(request.metadata.get("run_id") or ""),
        context.now_ms,
        orjson.dumps([[one.name, one.type, one.items] for one in request.channels]).decode(),
        to_text(numbers),
    )
    table.put(stored)
    return PutResult(True, stored.mark)


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


def _find_base_parts(tx: Transaction, request: PutCheckpoint) -> list[int] | None:
    """Return the numbers of the parts of the base, None if it has changed or is gone."""
    if not request.base:
        return []
    ident = request.base.rpartition(":")[0]
    base = tx.table(CheckpointTable).find(request.agent, request.thread, request.ns, ident)
    return from_text(base.numbers) if base is not None and base.mark == request.base else None


def _combine_parts(parts: tuple[Part, ...], base_parts: list[int], new: Iterator[int]) -> list[int]:
    """Return the numbers of all parts, new ones and those of the base. Raises Refused."""
    numbers: list[int] = []
    for part in parts:
        if len(part) == 1:
            numbers.append(next(new))
            continue
        first, count = part
        if first + count > len(base_parts):
            raise Refused(f"the base has {len(base_parts)} parts, not {first + count}")
        numbers += base_parts[first : first + count]
    return numbers


def _check_channels(channels: tuple[Channel, ...], count: int) -> None:
    """Raise Refused if the channels do not have that many parts."""
    needed = sum(1 if one.items is None else one.items for one in channels)
    if needed != count:
        raise Refused(f"the channels have {needed} parts, but {count} were given")


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


@operation("checkpoints.get", access="read", mutates=False, store="memories", any_store=True)
def get(tx: Transaction, request: GetCheckpoint, context: Context) -> FoundCheckpoint:
    """Return a checkpoint with its values and the writes that follow it."""
    table = tx.table(CheckpointTable)
    stored = table.find(request.agent, request.thread, request.ns, request.id)
    if stored is None:
        key, values = (request.agent, request.thread, request.ns, request.id), list[bytes]()
    else:
        key, values = stored.key, [stored.checkpoint]
        if stored.mark != request.known:
            values += table.values(stored)
    writes = table.writes(key)
    data = b"".join([*values, *(one.value for one in writes)])
    # The other half is for base64 and the other fields.
    end = request.at + max(context.result_bytes // 2, 1)
    return FoundCheckpoint(
        stored is not None,
        key[3],
        "" if stored is None else stored.parent,
        "" if stored is None else stored.type,
        {} if stored is None else orjson.loads(stored.metadata),
        None if stored is None else format_time(stored.created_at),
        "" if stored is None else stored.mark,
        () if stored is None else tuple(Channel(*one) for one in orjson.loads(stored.channels)),
        tuple(map(len, values)),
        tuple(
            StoredWrite(one.task, one.path, one.idx, one.channel, one.type, len(one.value))
            for one in writes
        ),
        len(data),
        b64encode(data[request.at : end]).decode(),
    )


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
    limit: Limit = 50
    """The maximum number of checkpoints."""
    offset: Offset = 0
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


@operation("checkpoints.list", access="read", mutates=False, store="memories", any_store=True)
def list_checkpoints(tx: Transaction, request: ListCheckpoints, context: Context) -> CheckpointPage:
    """List checkpoints without their values, the newest first."""
    table = tx.table(CheckpointTable)
    agents = _list_agents(table, request.agent)
    total, page = 0, []
    outlines = table.select(
        agents=agents, thread=request.thread, ns=request.ns, before=request.before
    )
    for one in outlines:
        if request.metadata and not _fits(one, request.metadata):
            continue
        if request.offset <= total < request.offset + request.limit:
            page.append(one)
        total += 1
    return CheckpointPage(tuple(_view(one, table.size(one)) for one in page), total)


def _fits(one: Outline, values: dict[str, Any]) -> bool:
    """Return whether the metadata of a checkpoint has these values."""
    metadata = orjson.loads(one.metadata)
    return all(key in metadata and metadata[key] == value for key, value in values.items())


def _list_agents(table: CheckpointTable, agent: str | None) -> list[str]:
    """Return the agent, or all agents with checkpoints for None."""
    return table.agents() if agent is None else [agent]


def _view(one: Outline, size: int) -> CheckpointView:
    metadata = orjson.loads(one.metadata)
    return CheckpointView(*one.key, one.parent, metadata, format_time(one.created_at), size)


@nested_input
@dataclass(frozen=True, slots=True)
class WriteToStore:
    """A write."""

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


@operation("checkpoints.write", access="write", mutates=True, store="memories", any_store=True)
def write(tx: Transaction, request: WriteCheckpoint, context: Context) -> WriteResult:
    """Store the writes of a task that follow a checkpoint.

    Raises Refused: when `data` does not fit the sizes.
    """
    if request.piece:
        return WriteResult(keep_piece(tx, request.of, request.at, request.piece), 0)
    data = take_data(tx, request.of, request.at, request.data)
    if data is None:
        return WriteResult(False, 0)
    values = cut(data, [one.size for one in request.writes])
    place = (request.agent, request.thread, request.ns, request.id, request.task)
    rows = [
        Write(*place, one.idx, request.path, one.channel, one.type, value)
        for one, value in zip(request.writes, values, strict=True)
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


@operation("checkpoints.copy", access="write", mutates=True, store="memories", any_store=True)
def copy(tx: Transaction, request: CopyThread, context: Context) -> ThreadCopied:
    """Copy all checkpoints and writes of a thread into another thread.

    Raises Refused: when both are the same thread.
    """
    if request.source == request.target:
        raise Refused(
            f"thread {request.source!r} cannot be copied into itself; name another target"
        )
    table = tx.table(CheckpointTable)
    return ThreadCopied(table.copy(request.agent, request.source, request.target))


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


@operation("checkpoints.delete", access="delete", mutates=True, store="memories", any_store=True)
def delete(tx: Transaction, request: DeleteCheckpoints, context: Context) -> CheckpointsDeleted:
    """Delete threads and single checkpoints with their writes. Unknown ids are ignored."""
    table, deleted = tx.table(CheckpointTable), 0
    agents = _list_agents(table, request.agent)
    for agent in agents:
        deleted += sum(table.delete_thread(agent, thread) for thread in request.threads)
    if request.ids:
        deleted += table.delete([one.key for one in table.with_ids(agents, request.ids)])
    return CheckpointsDeleted(deleted)


@dataclass(frozen=True, slots=True)
class ForgetRuns:
    """The runs to forget."""

    runs: Names
    """Their ids, as in the `run_id` of the metadata."""
    agent: Name | None = None
    """Only those of this agent; null for all."""


@operation(
    "checkpoints.forget_runs", access="admin", mutates=True, store="memories", any_store=True
)
def forget_runs(tx: Transaction, request: ForgetRuns, context: Context) -> CheckpointsDeleted:
    """Delete the checkpoints of runs with their writes. Unknown runs are ignored."""
    table = tx.table(CheckpointTable)
    outlines = table.of_runs(_list_agents(table, request.agent), request.runs)
    return CheckpointsDeleted(table.delete([one.key for one in outlines]))


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


@operation("checkpoints.prune", access="delete", mutates=True, store="memories", any_store=True)
def prune(tx: Transaction, request: PruneThreads, context: Context) -> CheckpointsDeleted:
    """Delete the old checkpoints of threads with their writes. Unknown threads are ignored."""
    table = tx.table(CheckpointTable)
    deleted = 0
    for thread in request.threads:
        if request.strategy == "delete":
            deleted += table.delete_thread(request.agent, thread)
        else:
            deleted += prune_thread(table, request.agent, thread, request.keep)
    return CheckpointsDeleted(deleted)
