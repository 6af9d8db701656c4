"""checkpoints.get: returns a checkpoint with its values and the writes that follow it."""

from dataclasses import dataclass
from typing import Any

import orjson

from memrelay.memory.agents.checkpoint_input import GivenName, Name, Size, to_base64
from memrelay.memory.agents.checkpoints import Write
from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.checkpoints_put import Channel
from memrelay.memory.sqlite.store import Transaction
from memrelay.memory.timestamps import Moment, format_time


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
    found = tx.checkpoints.find(wanted.agent, wanted.thread, wanted.ns, wanted.id)
    key = (wanted.agent, wanted.thread, wanted.ns, wanted.id) if found is None else found.key
    values = [] if found is None else [found.checkpoint]
    if found is not None and found.mark != wanted.known:
        values += tx.checkpoints.values(found)
    writes = tx.checkpoints.writes(key)
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
