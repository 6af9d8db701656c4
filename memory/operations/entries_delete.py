"""entries.delete: deletes one entry of a named memory."""

from dataclasses import dataclass

from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.entries_get import fetch_entry
from memrelay.memory.operations.records_delete import DeleteInput, delete
from memrelay.memory.operations.records_update import check_version
from memrelay.memory.records.memory_view import Ident, MaybeIdent
from memrelay.memory.records.view import Versions
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class DeleteEntry:
    """Which entry."""

    id: Ident
    """The entry's id."""
    memory_id: MaybeIdent = ""
    """The memory in which it must be."""
    if_version: Versions = ()
    """Only where the entry has one of these versions."""


@operation("entries.delete", access="delete", mutates=True, at_home=True)
def delete_entry(tx: Transaction, unwanted: DeleteEntry, context: Context) -> None:
    """Deletes one entry.

    Raises NotThere and VersionDiffers.
    """
    entry = fetch_entry(tx, unwanted.id, unwanted.memory_id)
    check_version(entry, tx.records.further(entry.guid), unwanted.if_version)
    delete(tx, DeleteInput(entry.guid))
