"""entries.get: reads one entry of a named memory by its id."""

from dataclasses import dataclass

from memrelay.memory.errors import RecordNotFound
from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.memories_get import fetch_memory
from memrelay.memory.records.ids import guid_of
from memrelay.memory.records.memory_view import KIND, EntryView, Ident, MaybeIdent, entry_fields
from memrelay.memory.records.record import Record
from memrelay.memory.sqlite.filters import Conditions
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class GetEntry:
    """The entry to read."""

    id: Ident
    """The id of the entry."""
    memory_id: MaybeIdent = ""
    """The memory that must contain the entry."""


@operation("entries.get", access="read", mutates=False, home="memories")
def get_entry(tx: Transaction, wanted: GetEntry, context: Context) -> EntryView:
    """Return one entry.

    Raises RecordNotFound: when the entry does not exist, or belongs to another memory.
    """
    return entry_view(tx, fetch_entry(tx, wanted.id, wanted.memory_id))


def fetch_entry(tx: Transaction, ident: str, memory: str = "") -> Record:
    """Return the stored record of an entry. Raises RecordNotFound."""
    if memory:
        fetch_memory(tx, memory)
    guid = guid_of("me", tx.memory_id, ident)
    record = (
        next(tx.records.select(Conditions({"guid": guid}), "asc", 1, 0), None) if guid else None
    )
    is_entry = (
        record is not None and record.kind == KIND and tx.memories.find(record.scope) is not None
    )
    if record is None or not is_entry or memory not in ("", record.scope):
        where = f" in {memory[:128]}" if memory else ""
        raise RecordNotFound(
            f"Memory entry not found: no entry has the id {ident[:128]!r}{where}; "
            "entries.list lists them"
        )
    return record


def entry_view(tx: Transaction, record: Record) -> EntryView:
    """Return the entry as operations report it."""
    return EntryView(
        **entry_fields(
            record, tx.records.further(record.guid), tx.memory_id, tx.entries.confirmed(record.guid)
        )
    )
