"""Reads of records: one by its guid, pages of a list, and the records that a block reads."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import orjson
from msgspec import Struct
from msgspec.structs import replace

from memrelay.memory.engine.filter_sql import Conditions, Given, compiled
from memrelay.memory.engine.models import indexed_kinds
from memrelay.memory.engine.store import Transaction
from memrelay.memory.errors import RecordNotFound, Refused, ResultTooLarge
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.columns import Direction, OrderBy
from memrelay.memory.records.filters import Filter
from memrelay.memory.records.kinds import is_agent_memory
from memrelay.memory.records.paging import (
    MOST_ESCAPED,
    RECORD_BYTES,
    ByteBudget,
    Cursor,
    Limit,
    Offset,
    parse_cursor,
    refuse_too_large,
    take_within,
    too_large,
)
from memrelay.memory.records.record import Record, RecordExtras
from memrelay.memory.records.view import (
    Guid,
    Name,
    RecordView,
    Tags,
    TimeOrNull,
    time_ms,
    view,
)

# A record with the fields that few records have.
FullRecord = tuple[Record, RecordExtras]
Sort = Literal["arrival", "created_at", "updated_at", "uses"]


@dataclass(frozen=True, slots=True)
class GetRecord:
    """The record to read."""

    guid: Guid
    """The guid of the record."""


@operation("records.get", access="read", mutates=False, takes_as_of=True)
def get(tx: Transaction, request: GetRecord, context: Context) -> RecordView:
    """Return one record.

    Raises RecordNotFound: when the record does not exist.
    Raises ResultTooLarge: when the record does not fit into an answer.
    """
    record, extras = fetch(tx, request.guid)
    return view(check_fits(record, extras, context), extras)


def fetch(tx: Transaction, guid: str) -> FullRecord:
    """Return the stored record and its extras. Raises RecordNotFound."""
    record = next(tx.records.select(Conditions({"guid": guid}), "asc", 1, 0), None)
    if record is None:
        raise RecordNotFound(
            f"no record has the guid {guid[:128]!r} in {tx.memory_id}; "
            "use records.list or records.search to find records"
        )
    return record, tx.records.extras(guid)


def check_fits(record: Record, extras: RecordExtras, context: Context) -> Record:
    """Return the record unchanged. Raises ResultTooLarge if it does not fit into an answer."""
    name = f"record {record.guid}"
    refuse_too_large(name, record.content, extras.data, context.result_bytes)
    return record


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
    """List deleted records that can be restored instead. Their order is that of their deletion."""
    order: Literal["asc", "desc"] = "asc"
    """Oldest first, or newest first."""
    limit: Limit = 50
    """The maximum number of records. A page of long records may have fewer."""
    cursor: Cursor = ""
    """The `next_cursor` of the previous page."""
    sort: Sort = "arrival"
    """What `order` is about: the arrival, a time, or the number of uses."""
    offset: Offset = 0
    """The number of records to skip, for pages without a cursor."""
    valid_at: TimeOrNull = ""
    """Only records that are valid at this time: from `valid_from` until before `valid_to`."""

    @property
    def conditions(self) -> Conditions:
        """The conditions that are set. Raises Refused if `valid_at` is no time."""
        named = {"kind": self.kind, "scope": self.scope, "source": self.source}
        condition = compiled(self.filter)
        if self.kind in indexed_kinds():
            condition = literal_kind(named.pop("kind"), condition)
        return Conditions(
            {name: value for name, value in named.items() if value},
            tags=self.tags,
            given=condition,
            valid_at_ms=time_ms("valid_at", self.valid_at),
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


@operation("records.list", access="read", mutates=False, takes_as_of=True)
def list_records(tx: Transaction, request: ListRecords, context: Context) -> RecordPage:
    """List records by kind, scope, source, tags and filter, in pages. Writes shift no page.

    With `sort` or `offset`, a write may shift the pages.

    Raises Refused: when the cursor or `valid_at` is invalid, or `sort` or `offset` comes with the
    cursor or `deleted`.
    Raises ResultTooLarge: when a record does not fit into an answer.
    """
    hides = (request.deleted or tx.records.has_agent_memory) and not is_agent_memory(request.kind)
    conditions = replace(request.conditions, without_agents=hides)
    if request.has_window:
        return _list_window(tx, request, conditions, context)
    table = tx.records.versions if request.deleted else tx.records
    rows = table.page(conditions, request.order, parse_cursor(request.cursor), request.limit + 1)
    records, cursor = take_records(rows, request.limit, context)
    return RecordPage(tuple(view(*one) for one in records), cursor, table.count(conditions))


def _list_window(
    tx: Transaction, request: ListRecords, conditions: Conditions, context: Context
) -> RecordPage:
    """Return a page by its offset. Raises Refused and ResultTooLarge."""
    if request.cursor or request.deleted:
        raise Refused(
            "`sort` and `offset` select pages without a cursor, of records that exist; omit "
            "`cursor` and `deleted`"
        )
    order = request.order if request.sort == "arrival" else f"{request.sort} {request.order}"
    rows = tx.records.page(conditions, order, None, request.limit + 1, offset=request.offset)
    records, _ = take_records(rows, request.limit, context)
    return RecordPage(tuple(view(*one) for one in records), None, tx.records.count(conditions))


def take_records(
    rows: Iterable[tuple[int, Record, RecordExtras]], limit: int, context: Context
) -> tuple[list[FullRecord], str | None]:
    """Return (the records of a page, the next cursor); `rows` has one more than the limit.

    Raises ResultTooLarge: when a record does not fit into an answer.
    """
    budget = ByteBudget(context.result_bytes, _row_size, _row_bound)
    taken, has_more = take_within(rows, budget, limit)
    # A page ends before a record that is too large, so only the first one can be.
    for row, record, extras in taken[:1]:
        try:
            check_fits(record, extras, context)
        except ResultTooLarge as error:
            raise ResultTooLarge(f"{error}; cursor {row} continues after it") from error
    cursor = str(taken[-1][0]) if has_more else None
    return [(record, extras) for _, record, extras in taken], cursor


def take_ordered_page(
    tx: Transaction,
    conditions: Conditions,
    order: tuple[OrderBy, Direction],
    window: tuple[int, int],
    context: Context,
) -> tuple[list[FullRecord], int]:
    """Return (the records of a page, the number on all pages), by a time or by use.

    `window` is (limit, offset). A page of long records may have fewer. A partial index serves an
    order only if the conditions name the kind by `literal_kind`.

    Raises ResultTooLarge: when a record does not fit into an answer.
    """
    limit, offset = window
    rows = tx.records.page(conditions, " ".join(order), None, limit + 1, offset=offset)
    return take_records(rows, limit, context)[0], tx.records.count(conditions)


def literal_kind(kind: str, condition: Given | None = None) -> Given:
    """Return the condition that a record has a kind, which the SQL names literally.

    SQLite then uses the indexes of that kind. `kind` is a constant of the program.
    """
    sql = f"r.kind = '{kind}'"
    if condition is None:
        return Given(f"({sql})", (), {"kind": kind})
    return Given(f"({sql} AND {condition.sql})", condition.values, condition.told)


def record_budget(most: int) -> ByteBudget[FullRecord]:
    """Return the budget of an answer with at most that many bytes of records."""
    return ByteBudget(most, record_size, _record_bound)


def record_size(item: FullRecord) -> int:
    """Return the size of a record in JSON, bytes."""
    record, extras = item
    names = (record.scope, record.kind, record.source, extras.key, extras.owner, extras.thread)
    texts = len(orjson.dumps((record.content, *names))) + len(record.tags.encode())
    return texts + len((extras.data or "").encode()) + RECORD_BYTES


def minimum_size(record: Record, data: str | None) -> int:
    """Return the minimum size of a record in bytes. A turn's source can be long too."""
    texts = len(record.content) + len(record.source) + len(record.tags)
    return texts + len(data or "") + RECORD_BYTES


def _record_bound(item: FullRecord) -> int:
    record, extras = item
    names = len(record.scope) + len(record.kind)
    names += sum(map(len, filter(None, (extras.key, extras.owner, extras.thread))))
    return MOST_ESCAPED * (minimum_size(record, extras.data) + names)


def _row_size(item: tuple[int, Record, RecordExtras]) -> int:
    return record_size(item[1:])


def _row_bound(item: tuple[int, Record, RecordExtras]) -> int:
    return _record_bound(item[1:])


class ReadInput(Struct, frozen=True):
    """The records to read, of at most `max_bytes`. `limit` None means all. A struct for speed, like
    WriteInput.
    """

    max_bytes: int
    filters: dict[str, str] = {}  # by kind, scope, source
    order: Literal["asc", "desc"] = "asc"
    limit: int | None = None
    offset: int = 0
    given: Given | None = None  # a compiled filter


def read(tx: Transaction, request: ReadInput) -> list[Record]:
    """Return the records in order of creation, without the memory of agents.

    Raises ResultTooLarge.
    """
    rows = tx.records.select(
        _read_conditions(tx, request), request.order, request.limit, request.offset
    )
    return collect_within(request.max_bytes, rows)


def read_fitting(tx: Transaction, request: ReadInput) -> "Found":
    """Return the first records that fit into `max_bytes`, in the order of `read`.

    The first one is returned in any case. The limit of the input does not count.
    """
    conditions = _read_conditions(tx, request)
    rows = tx.records.select(conditions, request.order, None, request.offset)
    records, has_more = take_fitting(request.max_bytes, rows)
    if not has_more:
        return Found(records)
    return Found(records, tx.records.count(conditions) - request.offset - len(records))


def _read_conditions(tx: Transaction, request: ReadInput) -> Conditions:
    return Conditions(
        request.filters, given=request.given, without_agents=tx.records.has_agent_memory
    )


def collect_within(max_bytes: int, records: Iterable[Record]) -> list[Record]:
    """Return all records. Raises ResultTooLarge once their text exceeds `max_bytes`.

    Blocks read many records at once, so it does not call anything for each of them.
    """
    size, taken = 0, []
    for record in records:
        taken.append(record)
        size += len(record.content) + RECORD_BYTES
        if size > max_bytes:
            raise too_large(max_bytes)
    return taken


def take_fitting(max_bytes: int, records: Iterable[Record]) -> tuple[list[Record], bool]:
    """Return (the first records whose text fits into `max_bytes`, whether there are more).

    The first record is returned in any case. As above, nothing is called for each record.
    """
    size, taken = 0, list[Record]()
    for record in records:
        size += len(record.content) + RECORD_BYTES
        if taken and size > max_bytes:
            return taken, True
        taken.append(record)
    return taken, False


class Found(NamedTuple):
    """The first records of a result, and how many more there are."""

    records: list[Record]
    left_out: int = 0


def max_records_within(max_bytes: int) -> int:
    """Return the maximum number of records that `collect_within` would accept."""
    return max_bytes // RECORD_BYTES + 1
