"""memories.delete: deletes a named memory with all of its entries."""

from dataclasses import dataclass

from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.memories_get import fetch_memory
from memrelay.memory.operations.memories_update import check_memory_version
from memrelay.memory.records.memory_view import KIND, Ident
from memrelay.memory.records.view import Versions
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class DeleteMemory:
    """Which memory."""

    id: Ident
    """The memory's id."""
    if_version: Versions = ()
    """Only where the memory has one of these versions."""


@operation("memories.delete", access="delete", mutates=True, at_home=True)
def delete_memory(tx: Transaction, unwanted: DeleteMemory, context: Context) -> None:
    """Deletes a named memory with all of its entries.

    Raises NotThere and VersionDiffers.
    """
    check_memory_version(fetch_memory(tx, unwanted.id), unwanted.if_version)
    tx.records.delete_all({"scope": unwanted.id, "kind": KIND})
    tx.memories.remove(unwanted.id)
