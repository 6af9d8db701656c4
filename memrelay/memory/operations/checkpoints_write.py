"""checkpoints.write: stores the writes of a task that follow a checkpoint."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

from memrelay.memory.agents.checkpoint_input import (
    GivenName,
    Name,
    Size,
    Upload,
    cut,
    keep_piece,
    take_data,
)
from memrelay.memory.agents.checkpoints import Write
from memrelay.memory.operation import Context, operation
from memrelay.memory.sqlite.store import Transaction

MAX_WRITES = 10_000
Index = Annotated[int, Field(ge=-(1 << 31), le=1 << 31)]


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
    return WriteResult(True, tx.checkpoints.put_writes(rows))
