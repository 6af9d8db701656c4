"""memories.update: changes the name, description and tags of a named memory."""

from dataclasses import dataclass
from typing import Any, Literal

from memrelay.memory.errors import VersionConflict
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
from memrelay.memory.timestamps import next_change_ms


@dataclass(frozen=True, slots=True)
class UpdateMemory:
    """The changes of a memory. Omitted fields keep their values."""

    id: Ident
    """The id of the memory."""
    name: MemoryName | None = None
    """The new name."""
    description: Description | None = None
    """The new description."""
    tags: TagList | None = None
    """The new tags; they replace all present tags."""
    clear: tuple[Literal["description", "tags"], ...] = ()
    """The fields to set to null."""
    if_version: Versions = ()
    """Change only if the memory has one of these versions."""


@operation("memories.update", access="write", mutates=True, home="memories")
def update_memory(tx: Transaction, change: UpdateMemory, context: Context) -> MemoryView:
    """Change the given fields of a memory.

    Raises RecordNotFound: when the memory does not exist.
    Raises VersionConflict: when the memory has another version.
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
        after = after._replace(updated_at=next_change_ms(context.now_ms, before.updated_at))
        tx.memories.replace(after)
    return memory_view(after, tx.memory_id)


def check_memory_version(memory: Memory, allowed: tuple[str, ...]) -> None:
    """Raise VersionConflict if the memory has none of the allowed versions; () allows all."""
    if allowed and (version := version_of_memory(memory)) not in allowed:
        raise VersionConflict(
            f"memory {memory.id} has version {version}, not the expected one; "
            "read it again and retry with its version"
        )
