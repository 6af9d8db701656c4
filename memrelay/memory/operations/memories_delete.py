"""memories.delete: deletes a named memory with all its entries."""

from dataclasses import dataclass

from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.memories_get import fetch_memory
from memrelay.memory.operations.memories_update import check_memory_version
from memrelay.memory.records.memory_view import KIND, Ident
from memrelay.memory.records.view import Versions
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class DeleteMemory:
    """The memory to delete."""

    id: Ident
    """The id of the memory."""
    if_version: Versions = ()
    """Delete only if the memory has one of these versions."""


@operation("memories.delete", access="delete", mutates=True, home="memories")
def delete_memory(tx: Transaction, target: DeleteMemory, context: Context) -> None:
    """Delete a named memory with all its entries.

    Raises RecordNotFound: when the memory does not exist.
    Raises VersionConflict: when the memory has another version.
    """
    check_memory_version(fetch_memory(tx, target.id), target.if_version)
    tx.records.delete_all({"scope": target.id, "kind": KIND})
    tx.memories.remove(target.id)
