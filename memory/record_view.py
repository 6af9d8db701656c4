"""A record as the operations tell it: tags as a list, times in RFC 3339, and the version by which it is edited."""
from dataclasses import dataclass
from typing import Annotated

import orjson
from pydantic import Field

from memory.record import Record
from memory.sqlite.checksum import beginning, checksum
from memory.times import Moment, as_time

MOST_TAGS = 64
Content = Annotated[str, Field(min_length=1)]
Guid = Annotated[str, Field(min_length=1, max_length=128)]
Name = Annotated[str, Field(max_length=256)]   # a kind, a scope, a source; "" where none is given
GivenName = Annotated[str, Field(min_length=1, max_length=256)]
Tags = Annotated[tuple[GivenName, ...], Field(max_length=MOST_TAGS)]
Versions = Annotated[tuple[str, ...], Field(max_length=MOST_TAGS)]   # () for whatever version there is


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
    version: str
    """Another one after each change; an edit may ask for it."""


def view(record: Record) -> RecordView:
    """A stored record, as it is told."""
    return RecordView(record.guid, record.scope, record.kind, record.content, record.source, tuple(orjson.loads(record.tags)),
                      as_time(record.created_at), as_time(record.updated_at), version_of(record))


def version_of(record: Record) -> str:
    """Made of when it was changed and of all that it says, so that it needs no place of its own."""
    common = beginning(record.scope, record.kind, record.source, record.tags)
    return f"{record.updated_at:x}-{checksum(common, record.guid, record.content):x}"
