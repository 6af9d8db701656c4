"""records.append: appends text to a record that a guid or keys select, or creates a record."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memrelay.memory.appends import LongRecord
from memrelay.memory.errors import RecordNotFound, ResultTooLarge
from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_read import RECORD_BYTES
from memrelay.memory.operations.records_write import WriteInput, write
from memrelay.memory.records.kinds import refuse_reserved
from memrelay.memory.records.record import DEFAULT_KIND
from memrelay.memory.records.tags import parse
from memrelay.memory.records.view import Content, Name, Reason, Tags
from memrelay.memory.sqlite.filters import Filters
from memrelay.memory.sqlite.store import Transaction

# Below a character per this many allowed bytes, the record fits: even with escapes and its data.
BYTES_PER_CHARACTER = 8


@dataclass(frozen=True, slots=True)
class AppendInput:
    """A text to append, and the record to append it to.

    The record is looked up by `guid`, then by `filters` (scope, kind, source) unless empty. If
    there is none, `new` is written.
    """

    new: WriteInput  # its content is the text to append
    guid: str
    filters: Filters
    separator: str = "\n"
    most_bytes: int = 1 << 63  # the maximum size of the record, so that it remains readable
    must_exist: bool = False  # a missing record is an error


def append(tx: Transaction, addition: AppendInput) -> tuple[str, bool]:
    """Append to the oldest matching record; returns (guid, whether a record existed).

    Raises RecordNotFound: when the record must exist and does not.
    Raises Refused: when the guid is that of an agent's memory.
    Raises ResultTooLarge: when the record would exceed `most_bytes`.
    """
    record = tx.records.growing(addition.guid, addition.filters)
    if record is not None:
        return _extend(tx, record, addition), True
    found = tx.records.by_guid(addition.guid) if addition.guid else None
    if found is None and addition.must_exist:
        raise RecordNotFound(
            f"no record has the guid {addition.guid!r} in {tx.memory_id}; "
            "omit the guid to create a record"
        )
    if found is None and addition.filters:
        found = tx.records.oldest(addition.filters)
    if found is None:
        return write(tx, addition.new), False
    if tx.records.has_agent_memory:
        refuse_reserved(found.whole.kind)
    if (record := tx.records.appends.start(found)) is not None:
        return _extend(tx, record, addition), True
    content = found.content + addition.separator + addition.new.content
    if len(content) > addition.most_bytes // BYTES_PER_CHARACTER:
        size = len(content.encode()) + len(found.whole.data or "")
        _check_size(found.guid, size, addition.most_bytes)
    tx.records.replace_content(found, content, addition.new.now_ms)
    return found.guid, True


def _extend(tx: Transaction, record: LongRecord, addition: AppendInput) -> str:
    """Append to a long record without reading its content."""
    text = addition.separator + addition.new.content
    size = record.size + len(text.encode()) + len(record.data)
    _check_size(record.guid, size, addition.most_bytes)
    tx.records.extend(record, text, addition.new.now_ms)
    return record.guid


def _check_size(guid: str, size: int, most_bytes: int) -> None:
    """Raise ResultTooLarge if a record of that size would no longer fit into an answer."""
    if size + RECORD_BYTES > most_bytes:
        raise ResultTooLarge(
            f"record {guid} would have {size + RECORD_BYTES} bytes, and an answer has at most "
            f"{most_bytes}: append to another record, or shorten the content of this one first"
        )


@dataclass(frozen=True, slots=True)
class AppendToRecord:
    """A text to append, and the record: that of `guid`, else the oldest with the other keys."""

    content: Content
    """The text to append."""
    guid: Annotated[str, Field(max_length=128)] = ""
    """The record to append to, which must exist."""
    scope: Name = ""
    """Without a guid: the oldest record of this scope is used."""
    kind: Name = ""
    """Without a guid: the oldest record of this kind is used."""
    source: Name = ""
    """With a scope or kind: only records of this source are used."""
    tags: Tags = ()
    """The tags of a new record."""
    separator: Annotated[str, Field(max_length=256)] = "\n"
    """The text between the old content and the new."""
    reason: Reason = ""
    """The reason, kept in the history of an existing record."""


@dataclass(frozen=True, slots=True)
class Appended:
    """The record that holds the text."""

    guid: str
    created: bool
    """Whether the record is new."""


@operation("records.append", access="append", mutates=True)
def append_to_record(tx: Transaction, addition: AppendToRecord, context: Context) -> Appended:
    """Append text to a record. A new record is created if guid, scope and kind select none.

    Raises RecordNotFound: when no record has the guid.
    Raises Refused: when the kind is reserved.
    Raises ResultTooLarge: when the record would no longer fit into an answer.
    """
    refuse_reserved(addition.kind)
    new = WriteInput(
        context.new_guid(),
        addition.scope or tx.memory_id,
        addition.kind or DEFAULT_KIND,
        addition.content,
        addition.source or context.actor,
        parse(addition.tags),
        context.now_ms,
    )
    named = {"scope": addition.scope, "kind": addition.kind, "source": addition.source}
    keys = (
        {name: value for name, value in named.items() if value}
        if addition.scope or addition.kind
        else {}
    )
    guid, found = append(
        tx,
        AppendInput(
            new,
            addition.guid,
            keys,
            addition.separator,
            context.result_bytes,
            must_exist=bool(addition.guid),
        ),
    )
    return Appended(guid, not found)
