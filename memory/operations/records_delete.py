"""records.delete: deletes one record by its guid, or all of a kind."""
from dataclasses import dataclass

from memory.operation import operation
from memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class DeleteInput:
    """Which records: the one with `guid`, or where that is empty all of `kind`."""

    guid: str = ""
    kind: str = ""


@operation("records.delete", access="delete", mutates=True)
def delete(tx: Transaction, unwanted: DeleteInput) -> int:
    """Deletes and returns how many records that were."""
    if not unwanted.guid:
        return tx.records.delete_kind(unwanted.kind) if unwanted.kind else 0
    found = tx.records.by_guid(unwanted.guid)
    if found is None:
        return 0
    tx.records.delete(found)
    return 1
