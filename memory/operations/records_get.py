"""records.get: one record by its guid."""

from dataclasses import dataclass

from memrelay.memory.errors import NotThere, ResultTooLarge
from memrelay.memory.operation import Context, operation
from memrelay.memory.records.record import Further, Record
from memrelay.memory.records.view import Guid, RecordView, view
from memrelay.memory.sqlite.filters import Conditions
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class GetRecord:
    """Which record."""

    guid: Guid
    """The record's id."""


@operation("records.get", access="read", mutates=False)
def get(tx: Transaction, wanted: GetRecord, context: Context) -> RecordView:
    """Tells one record.

    Raises NotThere, and ResultTooLarge where it does not fit into an answer.
    """
    record, further = fetch(tx, wanted.guid)
    return view(fitting(record, further, context), further)


def fetch(tx: Transaction, guid: str) -> tuple[Record, Further]:
    """The record with its further fields, as it is stored. Raises NotThere."""
    record = next(tx.records.select(Conditions({"guid": guid}), "asc", 1, 0), None)
    if record is None:
        raise NotThere(
            f"no record has the guid {guid[:128]!r} in {tx.memory_id}; records.list and records.search find records"
        )
    return record, tx.records.further(guid)


def fitting(record: Record, further: Further, context: Context) -> Record:
    """The record itself. Raises ResultTooLarge."""
    size = len(record.content.encode()) + len(further.data or "")
    if size > context.result_bytes:
        raise ResultTooLarge(
            f"record {record.guid} has {size} bytes, and an answer at most {context.result_bytes}; "
            "`memrelay export PIPELINE --records` has it whole"
        )
    return record
