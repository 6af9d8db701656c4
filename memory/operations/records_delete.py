"""records.delete: deletes one record by its guid; for the block, all of a kind too."""

from dataclasses import dataclass

from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_get import fetch
from memrelay.memory.operations.records_update import check_version
from memrelay.memory.records.view import Guid, Reason, Versions
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class DeleteInput:
    """Which records: the one with `guid`, or where that is empty all of `kind`."""

    guid: str = ""
    kind: str = ""


def delete(tx: Transaction, unwanted: DeleteInput) -> int:
    """Deletes and returns how many records that were."""
    if not unwanted.guid:
        return tx.records.delete_all({"kind": unwanted.kind}) if unwanted.kind else 0
    found = tx.records.by_guid(unwanted.guid)
    if found is None:
        return 0
    tx.records.delete(found)
    return 1


@dataclass(frozen=True, slots=True)
class DeleteRecord:
    """Which record."""

    guid: Guid
    """The record's id."""
    reason: Reason = ""
    """Why; kept in the history."""
    if_version: Versions = ()
    """Only where the record has one of these versions."""


@operation("records.delete", access="delete", mutates=True)
def delete_record(tx: Transaction, unwanted: DeleteRecord, context: Context) -> None:
    """Deletes one record; records.restore undoes it.

    Raises NotThere and VersionDiffers.
    """
    check_version(*fetch(tx, unwanted.guid), unwanted.if_version)
    delete(tx, DeleteInput(unwanted.guid))
