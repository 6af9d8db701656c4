"""records.get: reads one record by its guid."""

from dataclasses import dataclass

from memrelay.memory.errors import RecordNotFound, ResultTooLarge
from memrelay.memory.operation import Context, operation
from memrelay.memory.records.record import Further, Record
from memrelay.memory.records.view import Guid, RecordView, view
from memrelay.memory.sqlite.filters import Conditions
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class GetRecord:
    """The record to read."""

    guid: Guid
    """The guid of the record."""


@operation("records.get", access="read", mutates=False)
def get(tx: Transaction, wanted: GetRecord, context: Context) -> RecordView:
    """Return one record.

    Raises RecordNotFound: when the record does not exist.
    Raises ResultTooLarge: when the record does not fit into an answer.
    """
    record, further = fetch(tx, wanted.guid)
    return view(check_fits(record, further, context), further)


def fetch(tx: Transaction, guid: str) -> tuple[Record, Further]:
    """Return the stored record and its further fields. Raises RecordNotFound."""
    record = next(tx.records.select(Conditions({"guid": guid}), "asc", 1, 0), None)
    if record is None:
        raise RecordNotFound(
            f"no record has the guid {guid[:128]!r} in {tx.memory_id}; "
            "use records.list or records.search to find records"
        )
    return record, tx.records.further(guid)


def check_fits(record: Record, further: Further, context: Context) -> Record:
    """Return the record unchanged. Raises ResultTooLarge if it does not fit into an answer."""
    size = len(record.content.encode()) + len(further.data or "")
    if size > context.result_bytes:
        raise ResultTooLarge(
            f"record {record.guid} has {size} bytes, and an answer has at most "
            f"{context.result_bytes}; use `memrelay export PIPELINE --records` to read it"
        )
    return record
