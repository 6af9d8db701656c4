"""A record as the operations tell it: tags as a list, times in RFC 3339, and the version by which
it is edited."""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from memrelay.memory.errors import Refused
from memrelay.memory.records.data import kept_data, kept_json
from memrelay.memory.records.record import Further, Record, beginning, checksum, names_of
from memrelay.memory.timestamps import LAST_MS, Moment, as_ms, as_time

MOST_TAGS = 64
Content = Annotated[str, Field(min_length=1)]
Guid = Annotated[str, Field(min_length=1, max_length=128)]
LONGEST_NAME = 256  # characters
Name = Annotated[
    str, Field(max_length=LONGEST_NAME)
]  # a kind, a scope, a source; "" where none is given
GivenName = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
Tags = Annotated[tuple[GivenName, ...], Field(max_length=MOST_TAGS)]
End = Annotated[
    str, Field(max_length=40)
]  # a date, or a date and time, in UTC unless it says otherwise; "" for never
Versions = Annotated[
    tuple[str, ...], Field(max_length=MOST_TAGS)
]  # () for whatever version there is


def _none_is_empty(given: object) -> object:
    return "" if given is None else given


# As a record is told that has none, so that what was read can be written.
NameOrNull = Annotated[Name, BeforeValidator(_none_is_empty, json_schema_input_type=Name | None)]
EndOrNull = Annotated[End, BeforeValidator(_none_is_empty, json_schema_input_type=End | None)]
ReasonText = Annotated[str, Field(max_length=1024)]
# Why something is changed; "" where nothing is said, which a history tells as null.
Reason = Annotated[
    ReasonText, BeforeValidator(_none_is_empty, json_schema_input_type=ReasonText | None)
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
    """From then on it is gone; null for never."""
    key: str | None
    """A name that its writer gave it."""
    owner: str | None
    """Whose it is."""
    data: dict[str, Any]
    """What is known of it beside its text."""
    in_context: bool
    """Whether it is meant to be always at hand."""
    thread: str | None
    """The conversation that it is a turn of."""
    seq: int | None
    """Its place there."""
    version: str
    """Another one after each change; an edit may ask for it."""


def view(record: Record, further: Further) -> RecordView:
    """A stored record, as it is told."""
    tags, data = kept_json(record.tags, record.guid), kept_data(record, further)
    return RecordView(
        record.guid,
        record.scope,
        record.kind,
        record.content,
        record.source,
        tuple(tags),
        as_time(record.created_at),
        as_time(record.updated_at),
        None if record.expires_at is None else as_time(record.expires_at),
        further.key,
        further.owner,
        data,
        bool(further.in_context),
        further.thread,
        further.seq,
        version_of(record, further),
    )


def end_ms(text: str, now_ms: int) -> int | None:
    """When a record is to expire, Unix ms; None for never. Raises Refused for what is no time, and
    for one that is over."""
    if not text:
        return None
    moment = as_ms(text)
    if moment is None or moment > LAST_MS:
        raise Refused(
            f"`expires_at` is a time like 2026-11-22T05:00:00Z, up to the year 9999; this is {text!r}"
        )
    if moment <= now_ms:
        raise Refused(
            f"`expires_at` is over: it was {as_time(moment)}, and now it is {as_time(now_ms)}; name a time to come, "
            "or delete the record"
        )
    return moment


def version_of(record: Record, further: Further) -> str:
    """Made of when it was changed and of all that it says, so that it needs no place of its own."""
    common = beginning(record.scope, record.kind, record.source, record.tags)
    return f"{record.updated_at:x}-{checksum(common, names_of(record.guid, further), record.content):x}"
