"""checkpoints.put: stores a checkpoint of a LangGraph thread."""

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import orjson
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
from memrelay.memory.agents.checkpoint_parts import from_text, to_text
from memrelay.memory.agents.checkpoints import LATEST_ID, Checkpoint
from memrelay.memory.errors import Refused
from memrelay.memory.operation import Context, operation
from memrelay.memory.sqlite.store import Transaction

MAX_CHANNELS = 10_000
MAX_PARTS = 1_000_000
Count = Annotated[int, Field(ge=0, le=MAX_PARTS)]
# [bytes] of a new part, or [first, count] of parts of the base.
Part = Annotated[tuple[Size, ...], Field(min_length=1, max_length=2)]


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
    new = iter(tx.checkpoints.add_values(given.agent, given.thread, values))
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
    tx.checkpoints.put(stored)
    return PutResult(True, stored.mark)


def _known_parts(tx: Transaction, given: PutCheckpoint) -> list[int] | None:
    """Return the numbers of the parts of the base, None if it has changed or is gone."""
    if not given.base:
        return []
    found = tx.checkpoints.find(given.agent, given.thread, given.ns, given.base.rpartition(":")[0])
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
