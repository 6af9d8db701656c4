"""memories.update: changes what a named memory is called."""

from dataclasses import dataclass
from typing import Any, Literal

from memrelay.memory.errors import VersionDiffers
from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.memories_create import tags_json
from memrelay.memory.operations.memories_get import fetch_memory
from memrelay.memory.records.memory_view import (
    Description,
    Ident,
    MemoryName,
    MemoryView,
    TagList,
    memory_view,
    version_of_memory,
)
from memrelay.memory.records.view import Versions
from memrelay.memory.sqlite.memories import Memory
from memrelay.memory.sqlite.store import Transaction
from memrelay.memory.timestamps import change_ms


@dataclass(frozen=True, slots=True)
class UpdateMemory:
    """What is to be changed; what is not named stays as it is."""

    id: Ident
    """The memory's id."""
    name: MemoryName | None = None
    """Another name."""
    description: Description | None = None
    """Another description."""
    tags: TagList | None = None
    """Other tags, in the place of those that it has."""
    clear: tuple[Literal["description", "tags"], ...] = ()
    """What it is to have no more."""
    if_version: Versions = ()
    """Only where the memory has one of these versions."""


@operation("memories.update", access="write", mutates=True, at_home=True)
def update_memory(tx: Transaction, change: UpdateMemory, context: Context) -> MemoryView:
    """Changes what is named of a memory.

    Raises NotThere and VersionDiffers.
    """
    before = fetch_memory(tx, change.id)
    check_memory_version(before, change.if_version)
    given: dict[str, Any] = {
        "name": change.name,
        "description": change.description,
        "tags": tags_json(change.tags),
    }
    changed = {
        name: value for name, value in given.items() if value is not None or name in change.clear
    }
    after = before._replace(**changed)
    if after != before:
        after = after._replace(updated_at=change_ms(context.now_ms, before.updated_at))
        tx.memories.replace(after)
    return memory_view(after, tx.memory_id)


def check_memory_version(memory: Memory, allowed: tuple[str, ...]) -> None:
    """Raises VersionDiffers where a version is asked for that the memory does not have."""
    if allowed and (version := version_of_memory(memory)) not in allowed:
        raise VersionDiffers(
            f"memory {memory.id} has the version {version}, not the one that this was meant to change; look "
            "at it and decide anew"
        )
