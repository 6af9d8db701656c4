"""The API view of a record: tags as a list, times in RFC 3339, and the version for conditional
edits.
"""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from memrelay.memory.engine.timestamps import LAST_MS, Moment, format_time, parse_ms
from memrelay.memory.errors import Refused
from memrelay.memory.records.data import kept_data, load_json
from memrelay.memory.records.record import Record, RecordExtras, beginning, checksum, names_of

MOST_TAGS = 64
Content = Annotated[str, Field(min_length=1)]
Guid = Annotated[str, Field(min_length=1, max_length=128)]
# characters
MAX_NAME_CHARACTERS = 256
# A kind, scope or source, "" for none.
Name = Annotated[str, Field(max_length=MAX_NAME_CHARACTERS)]
GivenName = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARACTERS)]
Tags = Annotated[tuple[GivenName, ...], Field(max_length=MOST_TAGS)]
# A date, or a date and time, in UTC unless it names a zone. "" for never.
End = Annotated[str, Field(max_length=40)]
# () accepts any version.
Versions = Annotated[tuple[str, ...], Field(max_length=MOST_TAGS)]


def none_is_empty(value: object) -> object:
    """Return "" for null, as the input of a text that may be missing."""
    return "" if value is None else value


# Accept null, as views return it, so that a record can be written as it was read.
NameOrNull = Annotated[Name, BeforeValidator(none_is_empty, json_schema_input_type=Name | None)]
EndOrNull = Annotated[End, BeforeValidator(none_is_empty, json_schema_input_type=End | None)]
# A time in the past or the future. "" for none.
TimeOrNull = EndOrNull
ReasonText = Annotated[str, Field(max_length=1024)]
# The reason of a change. "" for none, which the history returns as null.
Reason = Annotated[
    ReasonText, BeforeValidator(none_is_empty, json_schema_input_type=ReasonText | None)
]


@dataclass(frozen=True, slots=True)
class RecordView:
    """A record."""

    guid: str
    scope: str
    kind: str
    content: str
    source: str
    tags: tuple[str, ...]
    created_at: Moment
    updated_at: Moment
    expires_at: Moment | None
    """When the record expires; null for never."""
    key: str | None
    """A name set by the writer."""
    owner: str | None
    """The owner of the record."""
    data: dict[str, Any]
    """Structured data."""
    in_context: bool
    """Whether the record belongs to every context."""
    thread: str | None
    """The conversation that the record is a turn of."""
    seq: int | None
    """The position in the conversation."""
    valid_from: Moment | None
    """Since when what it says is true; null for ever."""
    valid_to: Moment | None
    """Until when what it says is true; null for open."""
    version: str
    """Changes with every edit; an edit can require it."""


def view(record: Record, extras: RecordExtras) -> RecordView:
    """Return the API view of a stored record. Raises RecordDamaged."""
    tags, data = load_json(record.tags, record.guid), kept_data(record, extras)
    return RecordView(
        record.guid,
        record.scope,
        record.kind,
        record.content,
        record.source,
        tuple(tags),
        format_time(record.created_at),
        format_time(record.updated_at),
        format_optional(record.expires_at),
        extras.key,
        extras.owner,
        data,
        bool(extras.in_context),
        extras.thread,
        extras.seq,
        format_optional(extras.valid_from),
        format_optional(extras.valid_to),
        version_of(record, extras),
    )


def format_optional(unix_ms: int | None) -> str | None:
    """Return Unix ms as a `Moment`, None for None."""
    return None if unix_ms is None else format_time(unix_ms)


def time_ms(name: str, text: str) -> int | None:
    """Parse an argument into Unix ms, None for "". Raises Refused if it is no time since 1970."""
    if not text:
        return None
    moment = parse_ms(text)
    if moment is None or not 0 <= moment <= LAST_MS:
        raise Refused(
            f"`{name}` is a time like 2026-11-22T05:00:00Z, from 1970 to the year 9999; got "
            f"{text!r}"
        )
    return moment


def with_period(extras: RecordExtras, valid_from: str | None, valid_to: str | None) -> RecordExtras:
    """Return extras with a period of validity: None keeps an end of it, and "" opens it.

    Raises Refused: when an end is no time, or the period is empty.
    """
    if valid_from is not None:
        extras = extras._replace(valid_from=time_ms("valid_from", valid_from))
    if valid_to is not None:
        extras = extras._replace(valid_to=time_ms("valid_to", valid_to))
    begin, end = extras.valid_from, extras.valid_to
    if begin is not None and end is not None and begin >= end:
        raise Refused(
            f"`valid_to` ({format_time(end)}) must be later than `valid_from` "
            f"({format_time(begin)})"
        )
    return extras


def end_ms(text: str, now_ms: int) -> int | None:
    """Parse `expires_at` into Unix ms, None for never.

    Raises Refused: the text is not a time, or the time is past.
    """
    if not text:
        return None
    moment = parse_ms(text)
    if moment is None or moment > LAST_MS:
        raise Refused(
            f"`expires_at` is a time like 2026-11-22T05:00:00Z, up to the year 9999; got {text!r}"
        )
    if moment <= now_ms:
        raise Refused(
            f"`expires_at` is in the past: {format_time(moment)}, and now it is "
            f"{format_time(now_ms)}; "
            "set a future time, or delete the record"
        )
    return moment


def version_of(record: Record, extras: RecordExtras) -> str:
    """Return the version, derived from the time of the last change and all fields, so it needs no
    column.
    """
    common = beginning(record.scope, record.kind, record.source, record.tags)
    crc = checksum(common, names_of(record.guid, extras), record.content)
    return f"{record.updated_at:x}-{crc:x}"
