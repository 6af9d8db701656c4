"""records.create: creates a record."""

from dataclasses import dataclass
from typing import Annotated

import orjson
from pydantic import Field

from memrelay.memory.errors import Refused
from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_get import fetch
from memrelay.memory.operations.records_write import WriteInput, write
from memrelay.memory.records.data import LARGEST, SMALLEST, Data, as_text
from memrelay.memory.records.kinds import refuse_reserved
from memrelay.memory.records.record import DEFAULT_KIND, PLAIN, Further, Record
from memrelay.memory.records.tags import parse
from memrelay.memory.records.view import (
    Content,
    EndOrNull,
    GivenName,
    Name,
    NameOrNull,
    RecordView,
    Tags,
    end_ms,
    view,
)
from memrelay.memory.sqlite.store import Transaction

Seq = Annotated[int, Field(ge=SMALLEST, le=LARGEST)]


@dataclass(frozen=True, slots=True)
class CreateRecord:
    """A record to create."""

    content: Content
    """The text."""
    kind: GivenName = DEFAULT_KIND
    """The kind of record."""
    scope: Name = ""
    """The context that it belongs to; by default the memory_id of the store."""
    source: Name = ""
    """The origin; by default the caller."""
    tags: Tags = ()
    """Tags for filters."""
    key: NameOrNull = ""
    """A name of your own. It need not be unique."""
    owner: NameOrNull = ""
    """The owner of the record."""
    data: Data | None = None
    """More data: a JSON object of at most 64 KiB. Filters can use it."""
    in_context: bool = False
    """Whether the record should always be part of the context."""
    thread: NameOrNull = ""
    """The conversation that the record is a turn of."""
    seq: Seq | None = None
    """The position in the thread; by default the end."""
    expires_at: EndOrNull = ""
    """The time at which the record expires; by default never."""


@operation("records.create", access="write", mutates=True)
def create(tx: Transaction, new: CreateRecord, context: Context) -> RecordView:
    """Create a record. Writing the same text again creates another record.

    Raises Refused: when the expiry time is invalid or past, the kind is reserved, or `seq` is given
    without a thread.
    """
    refuse_reserved(new.kind)
    if new.seq is not None and not new.thread:
        raise Refused("`seq` is a position in a thread; set `thread` too, or omit `seq`")
    further = Further(
        new.key or None, new.owner or None, as_text(new.data or {}), int(new.in_context)
    )
    record = WriteInput(
        context.new_guid(),
        new.scope or tx.memory_id,
        new.kind,
        new.content,
        new.source or context.actor,
        parse(new.tags),
        context.now_ms,
        new.thread,
        new.seq,
        end_ms(new.expires_at, context.now_ms),
        PLAIN if further == PLAIN else further,
    )
    write(tx, record)
    if new.thread:
        return view(*fetch(tx, record.guid))  # the store assigned the position
    return view(_stored(record), further)


def _stored(new: WriteInput) -> Record:
    """Return the record as the store has it, without reading it back."""
    return Record(
        new.guid,
        new.scope,
        new.kind,
        new.content,
        new.source,
        orjson.dumps(new.tags).decode(),
        new.now_ms,
        new.now_ms,
        new.expires_at,
    )
