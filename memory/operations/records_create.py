"""records.create: stores a text as a new record."""

from dataclasses import dataclass
from typing import Annotated

import orjson
from pydantic import Field

from memrelay.memory.errors import Refused
from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_get import fetch
from memrelay.memory.operations.records_write import WriteInput, write
from memrelay.memory.records.data import LARGEST, SMALLEST, Data, as_text
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
    key: NameOrNull = ""
    """Your own name for it; nothing keeps others from having the same."""
    owner: NameOrNull = ""
    """Whose it is."""
    data: Data | None = None
    """What else is known of it: a JSON object of 64 KiB at most, which filters reach into."""
    in_context: bool = False
    """Whether it is meant to be always at hand."""
    thread: NameOrNull = ""
    """The conversation that it is a turn of."""
    seq: Seq | None = None
    """Its place in the thread; by default after all that are there."""
    expires_at: EndOrNull = ""
    """From then on it is gone; by default it stays."""


@operation("records.create", access="write", mutates=True)
def create(tx: Transaction, new: CreateRecord, context: Context) -> RecordView:
    """Stores a text as a new record. The same text again is another record.

    Raises Refused for an end that is no time to come, and for a place in no thread.
    """
    if new.seq is not None and not new.thread:
        raise Refused("`seq` is a place in a thread; name the `thread` too, or leave it out")
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
        return view(*fetch(tx, record.guid))  # with its place
    return view(
        Record(
            record.guid,
            record.scope,
            record.kind,
            record.content,
            record.source,
            orjson.dumps(record.tags).decode(),
            record.now_ms,
            record.now_ms,
            record.expires_at,
        ),
        further,
    )
