"""Writes of records: creating, updating, appending, and the versions that a write expects."""

from dataclasses import dataclass
from typing import Annotated, Any

import orjson
from msgspec import Struct
from pydantic import Field

from memrelay.memory.engine.appends import LongRecord
from memrelay.memory.engine.filter_sql import Filters
from memrelay.memory.engine.keyed_table import new_state
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import next_change_ms
from memrelay.memory.engine.versions import State
from memrelay.memory.errors import RecordNotFound, Refused, ResultTooLarge
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.data import LARGEST, SMALLEST, Data, as_text, parse
from memrelay.memory.records.kinds import refuse_reserved
from memrelay.memory.records.optimistic_locking import check_version
from memrelay.memory.records.paging import RECORD_BYTES
from memrelay.memory.records.reading import check_fits, fetch
from memrelay.memory.records.record import DEFAULT_KIND, PLAIN, Record, RecordExtras
from memrelay.memory.records.view import (
    Content,
    End,
    EndOrNull,
    GivenName,
    Guid,
    Name,
    NameOrNull,
    Reason,
    RecordView,
    Tags,
    TimeOrNull,
    Versions,
    end_ms,
    view,
    with_period,
)

Seq = Annotated[int, Field(ge=SMALLEST, le=LARGEST)]
# Below a character per this many allowed bytes, the record fits: even with escapes and its data.
BYTES_PER_CHARACTER = 8


class WriteInput(Struct, frozen=True, gc=False):
    """A record to write. `now_ms` is Unix ms. A struct for speed, like Message."""

    guid: str
    scope: str
    kind: str
    content: str
    source: str
    tags: tuple[str, ...]
    now_ms: int
    thread: str = ""  # the conversation that it is a turn of, if any
    seq: int | None = None  # the position in the thread; by default the end
    expires_at: int | None = None  # Unix ms
    extras: RecordExtras = PLAIN  # its thread and seq are ignored


def write(tx: Transaction, new: WriteInput) -> str:
    """Store the record and return its guid."""
    tags = orjson.dumps(new.tags).decode() if new.tags else "[]"
    record = (new.guid, new.scope, new.kind, new.content, new.source, tags, new.now_ms, new.now_ms)
    if new.expires_at is not None or new.extras is not PLAIN:
        tx.records.insert_state(_make_state(new, tags))
    elif new.thread:
        tx.records.insert_turn(record, new.thread, new.seq)
    else:
        tx.records.insert(record)
    return new.guid


def _make_state(new: WriteInput, tags: str) -> State:
    """Return the record with all of its columns."""
    extras = new.extras
    return new_state(new.guid, new.kind, new.now_ms, new.source)._replace(
        scope=new.scope,
        tags=tags,
        key=extras.key,
        owner=extras.owner,
        data=extras.data,
        expires_at=new.expires_at,
        in_context=extras.in_context,
        valid_from=extras.valid_from,
        valid_to=extras.valid_to,
        thread=new.thread or None,
        seq=new.seq,
        content=new.content,
    )


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
    valid_from: TimeOrNull = ""
    """The time from which on the content is true; by default any."""
    valid_to: TimeOrNull = ""
    """The time at which the content stops being true; by default open."""


@operation("records.create", access="write", mutates=True)
def create(tx: Transaction, new: CreateRecord, context: Context) -> RecordView:
    """Create a record. Writing the same text again creates another record.

    Raises Refused: when the expiry time is invalid or past, the period of validity is invalid, the
    kind is reserved, or `seq` is given without a thread.
    """
    refuse_reserved(new.kind)
    if new.seq is not None and not new.thread:
        raise Refused("`seq` is a position in a thread; set `thread` too, or omit `seq`")
    extras = RecordExtras(
        new.key or None, new.owner or None, as_text(new.data or {}), int(new.in_context)
    )
    extras = with_period(extras, new.valid_from, new.valid_to)
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
        PLAIN if extras == PLAIN else extras,
    )
    write(tx, record)
    if new.thread:
        return view(*fetch(tx, record.guid))  # the store assigned the position
    return view(_stored(record), extras)


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


@dataclass(frozen=True, slots=True)
class UpdateRecord:
    """The changes of a record. Omitted fields keep their values."""

    guid: Guid
    """The guid of the record."""
    content: Content | None = None
    """The new text."""
    kind: GivenName | None = None
    """The new kind."""
    scope: GivenName | None = None
    """The new scope."""
    source: GivenName | None = None
    """The new source."""
    tags: Tags | None = None
    """The new tags; they replace all present tags."""
    key: Name | None = None
    """The new name of your own; "" removes it."""
    owner: Name | None = None
    """The new owner; "" removes it."""
    data: Data | None = None
    """The new data object; it replaces the present one."""
    in_context: bool | None = None
    """Whether the record should always be part of the context."""
    expires_at: End | None = None
    """The new expiry time; "" means never."""
    valid_from: End | None = None
    """The new time from which on the content is true; "" means any."""
    valid_to: End | None = None
    """The new time at which the content stops being true; "" means open."""
    reason: Reason = ""
    """The reason, kept in the history."""
    if_version: Versions = ()
    """Change only if the record has one of these versions."""


@operation("records.update", access="write", mutates=True)
def update(tx: Transaction, change: UpdateRecord, context: Context) -> RecordView:
    """Change the given fields of a record.

    Raises RecordNotFound: when the record does not exist.
    Raises VersionConflict: when the record has another version.
    Raises Refused: when the expiry time is invalid or past, the period of validity is invalid, or
    the old or new kind is reserved.
    Raises ResultTooLarge: when the record would not fit into an answer.
    """
    refuse_reserved(change.kind)
    before, extras_before = fetch(tx, change.guid)
    refuse_reserved(before.kind)
    check_version(before, extras_before, change.if_version)
    after = _apply(before, change, context.now_ms)
    extras = _apply_extras(extras_before, change)
    check_fits(after, extras, context)
    if (after, extras) == (before, extras_before):
        return view(after, extras)
    after = after._replace(updated_at=next_change_ms(context.now_ms, before.updated_at))
    tx.records.replace(before, after, extras)
    return view(after, extras)


def _apply(record: Record, change: UpdateRecord, now_ms: int) -> Record:
    values: dict[str, Any] = {
        name: value
        for name in ("content", "kind", "scope", "source")
        if (value := getattr(change, name)) is not None
    }
    if change.tags is not None:
        values["tags"] = orjson.dumps(parse(change.tags)).decode()
    if change.expires_at is not None:
        values["expires_at"] = end_ms(change.expires_at, now_ms)
    return record._replace(**values)


def _apply_extras(extras: RecordExtras, change: UpdateRecord) -> RecordExtras:
    if change.key is not None:
        extras = extras._replace(key=change.key or None)
    if change.owner is not None:
        extras = extras._replace(owner=change.owner or None)
    if change.data is not None:
        extras = extras._replace(data=as_text(change.data))
    if change.in_context is not None:
        extras = extras._replace(in_context=int(change.in_context))
    return with_period(extras, change.valid_from, change.valid_to)


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
    filters = {}
    if addition.scope or addition.kind:
        named = {"scope": addition.scope, "kind": addition.kind, "source": addition.source}
        filters = {name: value for name, value in named.items() if value}
    text = AppendInput(
        new,
        addition.guid,
        filters,
        addition.separator,
        context.result_bytes,
        must_exist=bool(addition.guid),
    )
    guid, existed = append(tx, text)
    return Appended(guid, not existed)


def append(tx: Transaction, addition: AppendInput) -> tuple[str, bool]:
    """Append to the oldest matching record; returns (guid, whether a record existed).

    Raises RecordNotFound: when the record must exist and does not.
    Raises Refused: when the guid is that of an agent's memory.
    Raises ResultTooLarge: when the record would exceed `most_bytes`.
    """
    long_record = tx.records.growing(addition.guid, addition.filters)
    if long_record is not None:
        return _extend(tx, long_record, addition), True
    stored = tx.records.by_guid(addition.guid) if addition.guid else None
    if stored is None and addition.must_exist:
        raise RecordNotFound(
            f"no record has the guid {addition.guid!r} in {tx.memory_id}; "
            "omit the guid to create a record"
        )
    if stored is None and addition.filters:
        stored = tx.records.oldest(addition.filters)
    if stored is None:
        return write(tx, addition.new), False
    if tx.records.has_agent_memory:
        refuse_reserved(stored.state.kind)
    if (long_record := tx.records.appends.start(stored)) is not None:
        return _extend(tx, long_record, addition), True
    content = stored.content + addition.separator + addition.new.content
    if len(content) > addition.most_bytes // BYTES_PER_CHARACTER:
        size = len(content.encode()) + len(stored.state.data or "")
        _check_size(stored.guid, size, addition.most_bytes)
    tx.records.replace_content(stored, content, addition.new.now_ms)
    return stored.guid, True


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
