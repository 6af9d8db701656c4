"""records.list: pages of records in order of arrival, which stay as they are while others write."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from memrelay.memory.errors import Refused, ResultTooLarge
from memrelay.memory.filter.input import Filter
from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_get import fitting
from memrelay.memory.operations.records_read import Room
from memrelay.memory.records.data import LARGEST
from memrelay.memory.records.record import Further, Record
from memrelay.memory.records.view import Name, RecordView, Tags, view
from memrelay.memory.sqlite.filters import Conditions, compiled
from memrelay.memory.sqlite.store import Transaction

MOST = 1000  # of a page
Limit = Annotated[int, Field(ge=1, le=MOST)]


@dataclass(frozen=True, slots=True)
class ListRecords:
    """Which records, and which page of them."""

    kind: Name = ""
    """Only records of this kind."""
    scope: Name = ""
    """Only records of this scope."""
    source: Name = ""
    """Only records of this source."""
    tags: Tags = ()
    """Only records with all of these tags."""
    filter: Filter | None = None
    """Only records that pass this filter, as docs/filters.md has it."""
    deleted: bool = False
    """Instead of those that are there, those that were deleted and can be restored, in the order of
    their deletion."""
    order: Literal["asc", "desc"] = "asc"
    """Oldest first, or newest first."""
    limit: Limit = 50
    """How many at most; a page of long records may have fewer."""
    cursor: Annotated[str, Field(max_length=19)] = ""
    """The `next_cursor` of the page before."""

    @property
    def conditions(self) -> Conditions:
        """Those that are set."""
        named = {"kind": self.kind, "scope": self.scope, "source": self.source}
        return Conditions(
            {name: value for name, value in named.items() if value},
            tags=self.tags,
            given=compiled(self.filter),
        )


@dataclass(frozen=True, slots=True)
class RecordPage:
    """A page of records."""

    items: tuple[RecordView, ...]
    next_cursor: str | None
    """For the next page; null on the last one."""
    total: int
    """How many records there are on all pages."""


@operation("records.list", access="read", mutates=False)
def list_records(tx: Transaction, wanted: ListRecords, context: Context) -> RecordPage:
    """Lists records by exact kind, scope and source, and by tags, a page at a time. What is written
    meanwhile moves no page.

    Raises Refused for a cursor that is none, and ResultTooLarge for a record that does not fit into
    an answer.
    """
    table = tx.records.versions if wanted.deleted else tx.records
    conditions = wanted.conditions
    found = table.page(conditions, wanted.order, place_of_cursor(wanted.cursor), wanted.limit + 1)
    records, cursor = page_within(found, wanted.limit, context)
    return RecordPage(tuple(view(*one) for one in records), cursor, table.count(conditions))


def page_within(
    found: Iterable[tuple[int, Record, Further]], limit: int, context: Context
) -> tuple[list[tuple[Record, Further]], str | None]:
    """(the records of a page, the cursor of the next one) of what was found, one more than the
    limit. Raises ResultTooLarge."""
    records: list[tuple[Record, Further]] = []
    last, room = None, Room(context.result_bytes)
    for row, record, further in found:
        if len(records) == limit or (room.is_short_of(record, further) and records):
            return records, str(last)
        records.append((_fitting(row, record, further, context), further))
        last = row
    return records, None


def _fitting(row: int, record: Record, further: Further, context: Context) -> Record:
    """The record itself, or ResultTooLarge with what to go on with."""
    try:
        return fitting(record, further, context)
    except ResultTooLarge as error:
        raise ResultTooLarge(f"{error}; the cursor {row} goes on after it") from error


def place_of_cursor(cursor: str) -> int | None:
    """Where a page goes on, a row or the like; None for the first page. Raises Refused."""
    if not cursor:
        return None
    if not (cursor.isascii() and cursor.isdecimal()) or int(cursor) > LARGEST:
        raise Refused("`cursor` is none of ours; leave it out to begin at the first page")
    return int(cursor)
