"""memories.create: creates a named memory."""

from dataclasses import dataclass

import orjson

from memrelay.memory.operation import Context, operation
from memrelay.memory.records.ids import make_id
from memrelay.memory.records.memory_view import (
    Description,
    MemoryName,
    MemoryView,
    TagList,
    memory_view,
)
from memrelay.memory.sqlite.memories import Memory
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class CreateMemory:
    """A named memory to create."""

    name: MemoryName
    """The name; it need not be unique."""
    description: Description | None = None
    """The purpose of the memory."""
    tags: TagList | None = None
    """Tags for filters."""


@operation("memories.create", access="write", mutates=True, home="memories")
def create_memory(tx: Transaction, new: CreateMemory, context: Context) -> MemoryView:
    """Create a named memory, which stores deduplicated entries."""
    return memory_view(add_memory(tx, new, context.new_guid(), context.now_ms), tx.memory_id)


def add_memory(tx: Transaction, new: CreateMemory, guid: str, now_ms: int) -> Memory:
    """Store a new memory and return it."""
    memory = Memory(
        make_id("mem", tx.memory_id, guid),
        new.name,
        new.description,
        tags_json(new.tags),
        now_ms,
        now_ms,
    )
    tx.memories.add(memory)
    return memory


def tags_json(tags: tuple[str, ...] | None) -> str | None:
    """Return the distinct tags in their stored form."""
    return None if tags is None else orjson.dumps(list(dict.fromkeys(tags))).decode()
