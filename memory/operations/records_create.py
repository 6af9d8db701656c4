"""records.create: stores a text as a new record."""
from dataclasses import dataclass

import orjson

from memory.operation import Context, operation
from memory.operations.records_write import WriteInput, write
from memory.record import DEFAULT_KIND, Record
from memory.record_view import Content, End, GivenName, Name, RecordView, Tags, end_ms, view
from memory.sqlite.store import Transaction
from memory.tags import parse


@dataclass(frozen=True, slots=True)
class CreateRecord:
    """What is to be remembered."""

    content: Content
    """The text."""
    kind: GivenName = DEFAULT_KIND
    """What sort of record it is."""
    scope: Name = ""
    """What it belongs to; by default the store's memory_id."""
    source: Name = ""
    """Where it comes from; by default who calls."""
    tags: Tags = ()
    """Words to find it by."""
    expires_at: End = ""
    """From then on it is gone; by default it stays."""


@operation("records.create", access="write", mutates=True)
def create(tx: Transaction, new: CreateRecord, context: Context) -> RecordView:
    """Stores a text as a new record. The same text again is another record.

    Raises Refused for an end that is no time to come.
    """
    record = WriteInput(context.new_guid(), new.scope or tx.memory_id, new.kind, new.content, new.source or context.actor,
                        parse(new.tags), context.now_ms, expires_at=end_ms(new.expires_at, context.now_ms))
    write(tx, record)
    return view(Record(record.guid, record.scope, record.kind, record.content, record.source,
                       orjson.dumps(record.tags).decode(), record.now_ms, record.now_ms, record.expires_at))
