"""records.get: reads one record by its guid."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple, TypeVar

import orjson
from msgspec import Struct
from msgspec.structs import replace
from pydantic import Field

from memrelay.memory.engine.conditions import Conditions, Given, compiled
from memrelay.memory.engine.store import Transaction
from memrelay.memory.errors import RecordNotFound, Refused, ResultTooLarge
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.columns import Direction, OrderBy
from memrelay.memory.records.data import LARGEST
from memrelay.memory.records.filters import Filter
from memrelay.memory.records.kinds import LANGGRAPH_ITEM_KIND, is_agent_memory
from memrelay.memory.records.record import Further, Record
from memrelay.memory.records.view import Guid, Name, RecordView, Tags, view

MOST_ESCAPED = 6  # bytes of a character in JSON: \u0000
RECORD_BYTES = 200  # minimum size of a record's keys, guid and times in JSON
Item = TypeVar("Item")
MOST = 1000  # items of a page
Limit = Annotated[int, Field(ge=1, le=MOST)]
Sort = Literal["arrival", "created_at", "updated_at", "uses"]
# Kinds that have partial indexes.
INDEXED_KINDS = frozenset({LANGGRAPH_ITEM_KIND})


@dataclass(frozen=True, slots=True)
class GetRecord:
    """The record to read."""

    guid: Guid
    """The guid of the record."""


@operation("records.get", access="read", mutates=False)
def get(tx: Transaction, wanted: GetRecord, context: Context) -> RecordView:
    """Return one record.

    Raises RecordNotFound: when the record does not exist.
    Raises ResultTooLarge: when the record does not fit into an answer.
    """
    record, further = fetch(tx, wanted.guid)
    return view(check_fits(record, further, context), further)


def fetch(tx: Transaction, guid: str) -> tuple[Record, Further]:
    """Return the stored record and its further fields. Raises RecordNotFound."""
    record = next(tx.records.select(Conditions({"guid": guid}), "asc", 1, 0), None)
    if record is None:
        raise RecordNotFound(
            f"no record has the guid {guid[:128]!r} in {tx.memory_id}; "
            "use records.list or records.search to find records"
        )
    return record, tx.records.further(guid)


def check_fits(record: Record, further: Further, context: Context) -> Record:
    """Return the record unchanged. Raises ResultTooLarge if it does not fit into an answer."""
    size = len(record.content.encode()) + len(further.data or "")
    if size > context.result_bytes:
        raise ResultTooLarge(
            f"record {record.guid} has {size} bytes, and an answer has at most "
            f"{context.result_bytes}; use `memrelay export PIPELINE --records` to read it"
        )
    return record


def size_of(record: Record, data: str | None) -> int:
    """Return the minimum size of a record in bytes. A turn's source can be long too."""
    return (
        len(record.content) + len(record.source) + len(record.tags) + len(data or "") + RECORD_BYTES
    )


class AnswerSize:
    """Tracks the JSON size of an answer of at most `most` bytes.

    While a cheap upper bound fits, the exact size is not computed.
    """

    def __init__(self, most: int) -> None:
        self._most, self._taken, self._worst = most, 0, 0
        self._unsure: list[tuple[Record, Further]] = []

    def would_exceed(self, record: Record, further: Further) -> bool:
        """Return whether the answer would be too large with this record."""
        self._unsure.append((record, further))
        names = (
            len(record.scope)
            + len(record.kind)
            + sum(map(len, filter(None, (further.key, further.owner, further.thread))))
        )
        self._worst += MOST_ESCAPED * (size_of(record, further.data) + names)
        if self._taken + self._worst <= self._most:
            return False
        self._taken += sum(_json_size(*one) for one in self._unsure)
        self._worst = 0
        self._unsure.clear()
        return self._taken > self._most


def _json_size(record: Record, further: Further) -> int:
    names = (record.scope, record.kind, record.source, further.key, further.owner, further.thread)
    texts = len(orjson.dumps((record.content, *names))) + len(record.tags.encode())
    return texts + len((further.data or "").encode()) + RECORD_BYTES


class ReadInput(Struct, frozen=True):
    """The records to read; `limit` None means all. A struct for speed, like WriteInput.

    A result of more than `max_bytes` raises an error.
    """

    max_bytes: int
    filters: dict[str, str] = {}  # by kind, scope, source
    order: Literal["asc", "desc"] = "asc"
    limit: int | None = None
    offset: int = 0
    given: Given | None = None  # a compiled filter


def read(tx: Transaction, wanted: ReadInput) -> list[Record]:
    """Return the records in order of creation, without the memory of agents.

    Raises ResultTooLarge.
    """
    return collect_within(
        wanted.max_bytes,
        tx.records.select(
            Conditions(
                wanted.filters, given=wanted.given, without_agents=tx.records.has_agent_memory
            ),
            wanted.order,
            wanted.limit,
            wanted.offset,
        ),
    )


def collect_within(max_bytes: int, records: Iterable[Record]) -> list[Record]:
    """Return all records. Raises ResultTooLarge once their text exceeds `max_bytes`."""
    size, taken = 0, []
    for record in records:
        taken.append(record)
        size += len(record.content) + RECORD_BYTES
        if size > max_bytes:
            raise too_large(max_bytes)
    return taken


class Found(NamedTuple):
    """The best records of a search, and how many more there are."""

    records: list[Record]
    left_out: int = 0


def take_within(max_bytes: int, records: Iterable[Record]) -> tuple[list[Record], bool]:
    """Return (the first records whose text fits into `max_bytes`, whether there are more).

    The first record is returned in any case.
    """
    size, taken = 0, list[Record]()
    for record in records:
        size += len(record.content) + RECORD_BYTES
        if taken and size > max_bytes:
            return taken, True
        taken.append(record)
    return taken, False


def take_page(found: Iterable[Item], limit: int, most: int) -> tuple[list[Item], bool]:
    """Return (the items of a page, whether there are more).

    A page has at most `limit` items and `most` bytes of JSON, but at least one item.
    """
    items: list[Item] = []
    size = 0
    for one in found:
        size += len(orjson.dumps(one))
        if len(items) == limit or (items and size > most):
            return items, True
        items.append(one)
    return items, False


def max_records_within(max_bytes: int) -> int:
    """Return the maximum number of records that `collect_within` would accept."""
    return max_bytes // RECORD_BYTES + 1


def too_large(max_bytes: int) -> ResultTooLarge:
    """Return the error for a result of more than `max_bytes`."""
    return ResultTooLarge(
        f"the result has more than {max_bytes} bytes, too many for a message: set `limit` in "
        "wf_webhook_args; for a single long record, use an `output_template` with `truncate`"
    )


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
