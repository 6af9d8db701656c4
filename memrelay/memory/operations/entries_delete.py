"""entries.delete: deletes one entry of a named memory."""

from dataclasses import dataclass

from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.entries_get import fetch_entry
from memrelay.memory.operations.records_delete import DeleteInput, delete
from memrelay.memory.operations.records_update import check_version
from memrelay.memory.records.memory_view import Ident, MaybeIdent
from memrelay.memory.records.view import Reason, Versions
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class DeleteEntry:
    """The entry to delete."""

    id: Ident
    """The id of the entry."""
    memory_id: MaybeIdent = ""
    """The memory that must contain the entry."""
    if_version: Versions = ()
    """Delete only if the entry has one of these versions."""
    reason: Reason = ""
    """The reason, kept in the history."""


@operation("entries.delete", access="delete", mutates=True, home="memories")
def delete_entry(tx: Transaction, target: DeleteEntry, context: Context) -> None:
    """Delete one entry.

    Raises RecordNotFound: when the entry does not exist in the memory.
    Raises VersionConflict: when the entry has another version.
    """
    entry = fetch_entry(tx, target.id, target.memory_id)
    check_version(entry, tx.records.further(entry.guid), target.if_version)
    delete(tx, DeleteInput(entry.guid))
