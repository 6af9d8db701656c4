"""records.list: lists records in pages, in order of creation, stable under concurrent writes."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec.structs import replace
from pydantic import Field

from memrelay.memory.errors import Refused, ResultTooLarge
from memrelay.memory.filter.input import Filter
from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_get import check_fits
from memrelay.memory.operations.records_read import AnswerSize
from memrelay.memory.records.data import LARGEST
from memrelay.memory.records.kinds import LANGGRAPH_ITEM_KIND, is_agent_memory
from memrelay.memory.records.page_order import Direction, OrderBy
from memrelay.memory.records.record import Further, Record
from memrelay.memory.records.view import Name, RecordView, Tags, view
from memrelay.memory.sqlite.filters import Conditions, Given, compiled
from memrelay.memory.sqlite.store import Transaction

MOST = 1000  # items of a page
Limit = Annotated[int, Field(ge=1, le=MOST)]
Sort = Literal["arrival", "created_at", "updated_at", "uses"]
# Kinds that have partial indexes.
INDEXED_KINDS = frozenset({LANGGRAPH_ITEM_KIND})


@dataclass(frozen=True, slots=True)
class ListRecords:
    """The records to list, and the page."""

    kind: Name = ""
    """Only records of this kind. Without it, kinds of agent memory (`memory.*`) are left out."""
    scope: Name = ""
    """Only records of this scope."""
    source: Name = ""
    """Only records of this source."""
    tags: Tags = ()
    """Only records with all of these tags."""
    filter: Filter | None = None
    """Only records that pass this filter (docs/filters.md)."""
    deleted: bool = False
    """List deleted records that can be restored instead, in the order of their deletion."""
    order: Literal["asc", "desc"] = "asc"
    """Oldest first, or newest first."""
    limit: Limit = 50
    """The maximum number of records. A page of long records may have fewer."""
    cursor: Annotated[str, Field(max_length=19)] = ""
    """The `next_cursor` of the previous page."""
    sort: Sort = "arrival"
    """What `order` is about: the arrival, a time, or the number of uses."""
    offset: Annotated[int, Field(ge=0, le=LARGEST)] = 0
    """The number of records to skip, for pages without a cursor."""

    @property
    def conditions(self) -> Conditions:
        """The conditions that are set."""
        named = {"kind": self.kind, "scope": self.scope, "source": self.source}
        given = compiled(self.filter)
        if self.kind in INDEXED_KINDS:
            given = literal_kind(named.pop("kind"), given)
        return Conditions(
            {name: value for name, value in named.items() if value}, tags=self.tags, given=given
        )

    @property
    def has_window(self) -> bool:
        """Whether the page is selected by an offset, or has another order than the arrival."""
        return self.sort != "arrival" or self.offset > 0


@dataclass(frozen=True, slots=True)
class RecordPage:
    """A page of records."""

    items: tuple[RecordView, ...]
    next_cursor: str | None
    """The cursor of the next page; null on the last page, and with `sort` or `offset`."""
    total: int
    """The number of records on all pages."""


@operation("records.list", access="read", mutates=False)
def list_records(tx: Transaction, wanted: ListRecords, context: Context) -> RecordPage:
    """List records by kind, scope, source, tags and filter, in pages. Writes shift no page.

    With `sort` or `offset`, a write may shift the pages.

    Raises Refused: when the cursor is invalid, or `sort` or `offset` comes with it or with
    `deleted`.
    Raises ResultTooLarge: when a record does not fit into an answer.
    """
    hides = (wanted.deleted or tx.records.has_agent_memory) and not is_agent_memory(wanted.kind)
    conditions = replace(wanted.conditions, without_agents=hides)
    if wanted.has_window:
        return _list_window(tx, wanted, conditions, context)
    table = tx.records.versions if wanted.deleted else tx.records
    found = table.page(conditions, wanted.order, parse_cursor(wanted.cursor), wanted.limit + 1)
    records, cursor = take_records(found, wanted.limit, context)
    return RecordPage(tuple(view(*one) for one in records), cursor, table.count(conditions))


def _list_window(
    tx: Transaction, wanted: ListRecords, conditions: Conditions, context: Context
) -> RecordPage:
    """Return a page by its offset. Raises Refused and ResultTooLarge."""
    if wanted.cursor or wanted.deleted:
        raise Refused(
            "`sort` and `offset` select pages without a cursor, of records that exist; omit "
            "`cursor` and `deleted`"
        )
    order = wanted.order if wanted.sort == "arrival" else f"{wanted.sort} {wanted.order}"
    found = tx.records.page(conditions, order, None, wanted.limit + 1, offset=wanted.offset)
    records, _ = take_records(found, wanted.limit, context)
    return RecordPage(tuple(view(*one) for one in records), None, tx.records.count(conditions))


def take_records(
    found: Iterable[tuple[int, Record, Further]], limit: int, context: Context
) -> tuple[list[tuple[Record, Further]], str | None]:
    """Return (the records of a page, the next cursor); `found` has one more than the limit.

    Raises ResultTooLarge: when a record does not fit into an answer.
    """
    records: list[tuple[Record, Further]] = []
    last, room = None, AnswerSize(context.result_bytes)
    for row, record, further in found:
        if len(records) == limit or (room.would_exceed(record, further) and records):
            return records, str(last)
        records.append((_check_fits(row, record, further, context), further))
        last = row
    return records, None


def take_ordered_page(
    tx: Transaction,
    conditions: Conditions,
    order: tuple[OrderBy, Direction],
    window: tuple[int, int],
    context: Context,
) -> tuple[list[tuple[Record, Further]], int]:
    """Return (the records of a page, the number on all pages), by a time or by use.

    `window` is (limit, offset). A page of long records may have fewer. A partial index serves an
    order only if the conditions name the kind by `literal_kind`.

    Raises ResultTooLarge: when a record does not fit into an answer.
    """
    limit, offset = window
    found = tx.records.page(conditions, " ".join(order), None, limit + 1, offset=offset)
    return take_records(found, limit, context)[0], tx.records.count(conditions)


def literal_kind(kind: str, given: Given | None = None) -> Given:
    """Return the condition that a record has a kind, which the SQL names literally.

    SQLite then uses the indexes of that kind. `kind` is a constant of the program.
    """
    sql = f"r.kind = '{kind}'"
    if given is None:
        return Given(f"({sql})", (), {"kind": kind})
    return Given(f"({sql} AND {given.sql})", given.values, given.told)


def _check_fits(row: int, record: Record, further: Further, context: Context) -> Record:
    """Return the record unchanged. Raises ResultTooLarge with the cursor to continue after it."""
    try:
        return check_fits(record, further, context)
    except ResultTooLarge as error:
        raise ResultTooLarge(f"{error}; cursor {row} continues after it") from error


def parse_cursor(cursor: str) -> int | None:
    """Return the position in a cursor; None for the first page. Raises Refused."""
    if not cursor:
        return None
    if not (cursor.isascii() and cursor.isdecimal()) or int(cursor) > LARGEST:
        raise Refused("`cursor` is invalid; omit it to start at the first page")
    return int(cursor)
