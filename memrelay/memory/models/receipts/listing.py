"""The operations on receipts: what was found for an answer, and which answers used a record."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import orjson
from pydantic import Field

from memrelay.memory.engine.retention import make_time_prefix, read_time
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment, format_time, parse_ms
from memrelay.memory.errors import RecordNotFound, Refused
from memrelay.memory.models.receipts.packing import Receipt
from memrelay.memory.models.receipts.table import LAST_ROW, ReceiptTable, Wanted
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.paging import Limit
from memrelay.memory.records.view import Guid

CURSOR = re.compile(r"[0-9]{1,4}\.[0-9]{1,18}\.[0-9]{1,9}", re.ASCII)
# Receipts that one call reads, at most. It may find fewer that match.
MAX_READ = 10_000
# Larger than any id.
LAST_ID = "g"
Text = Annotated[str, Field(max_length=256)]
Time = Annotated[str, Field(max_length=40)]
# Bytes of a receipt in JSON besides its question, and of each record in it.
RECEIPT_BYTES, FOUND_BYTES = 1000, 100


@dataclass(frozen=True, slots=True)
class ReceiptName:
    """A receipt."""

    id: Annotated[str, Field(min_length=1, max_length=64)]
    """The id of the receipt."""


@dataclass(frozen=True, slots=True)
class FoundRecord:
    """A record that a read has found."""

    guid: str
    version: int | None
    """The number of its version then, as in records.history; null if it is unknown."""
    score: float | None
    """Its score; null for a read without scores."""


@dataclass(frozen=True, slots=True)
class ReceiptView:
    """One read, and what it has found."""

    id: str
    at: Moment
    store: str
    """The store that was read: its memory_id."""
    change: int
    """The last change of the store that the read saw: `as_of` is `n:` with this number."""
    operation: str
    """The operation that reads the same."""
    question: dict[str, Any] | None
    """The input of the operation, or its digest; null after an erasure of what it quotes."""
    actor: str
    """The caller."""
    agent: str
    """The agent that has read; empty for a call."""
    message: str
    """The id of the input whose answer used what was found, or what the caller named; else
    empty."""
    thread: str
    """The session of the caller, if it named one."""
    found: tuple[FoundRecord, ...]
    """The records, best first."""
    left_out: int
    """The number of further records that were found."""
    fingerprint: dict[str, Any]
    """What else the answer depends on: the version of the ranking, the embedder, the language, and
    settings."""


@operation("receipts.get", access="admin", mutates=False)
def get_receipt(tx: Transaction, request: ReceiptName, context: Context) -> ReceiptView:
    """Return a receipt of any store of the pipeline.

    Raises RecordNotFound: when there is none with the id.
    """
    for _, store, table in _tables(tx, context):
        found = table.find(request.id)
        if found is not None and found.pipeline == context.pipeline:
            return _view(found, store, table)
    raise RecordNotFound(
        f"no receipt has the id {request.id!r}; it may be older than `receipts_days`, and one of "
        "a call is written after up to a second"
    )


@dataclass(frozen=True, slots=True)
class ListReceipts:
    """The receipts to list."""

    record: Guid | None = None
    """Only those that found the record with this guid."""
    message: Text = ""
    """Only those of the answer to this input, or with this name of an answer."""
    thread: Text = ""
    """Only those of this session."""
    since: Time = ""
    """Only receipts from this time or later: RFC 3339 or Unix ms."""
    until: Time = ""
    """Only receipts from before this time."""
    limit: Limit = 100
    """The maximum number of receipts. A page may have fewer, or none, and still a `next_cursor`."""
    cursor: Annotated[str, Field(max_length=64)] = ""
    """The `next_cursor` of the previous page."""


@dataclass(frozen=True, slots=True)
class ReceiptList:
    """The receipts of each store, the newest first."""

    items: tuple[ReceiptView, ...]
    next_cursor: str | None


@operation("receipts.list", access="admin", mutates=False)
def list_receipts(tx: Transaction, request: ListReceipts, context: Context) -> ReceiptList:
    """List the receipts that the stores of the pipeline keep.

    Raises Refused: for an invalid time or cursor.
    """
    wanted = Wanted(context.pipeline, request.record or "", request.message, request.thread)
    period = _parse_time(request.since, "since"), _parse_time(request.until, "until") or LAST_ID
    items: list[ReceiptView] = []
    size, scan = 0, _scan(tx, context, _parse_cursor(request.cursor), period)
    for read, (cursor, store, table, receipt) in enumerate(scan):
        if read == MAX_READ or receipt is None:
            return ReceiptList(tuple(items), cursor)
        if not (period[0] <= receipt.id < period[1] and wanted.matches(receipt)):
            continue
        size += len(orjson.dumps(receipt.question)) + RECEIPT_BYTES
        size += FOUND_BYTES * len(receipt.found)
        if len(items) == request.limit or (items and size > context.result_bytes):
            return ReceiptList(tuple(items), cursor)
        items.append(_view(receipt, store, table))
    return ReceiptList(tuple(items), None)


@dataclass(frozen=True, slots=True)
class RecordUses:
    """A record, and the page."""

    guid: Guid
    """The guid of the record, which may be deleted or erased."""
    limit: Limit = 100
    """The maximum number of uses. A page may have fewer, or none, and still a `next_cursor`."""
    cursor: Annotated[str, Field(max_length=64)] = ""
    """The `next_cursor` of the previous page."""


@dataclass(frozen=True, slots=True)
class RecordUse:
    """One read that found the record."""

    receipt: str
    """The id of the receipt."""
    at: Moment
    version: int | None
    """The number of the version that was read, as in records.history."""
    is_present: bool
    """Whether the record still has that version."""
    score: float | None
    message: str
    """The id of the input whose answer used it, or what the caller named; else empty."""
    agent: str
    actor: str
    thread: str


@dataclass(frozen=True, slots=True)
class RecordUseList:
    """The reads of each store that found the record, the newest first."""

    items: tuple[RecordUse, ...]
    next_cursor: str | None


@operation("records.uses", access="admin", mutates=False)
def list_uses(tx: Transaction, request: RecordUses, context: Context) -> RecordUseList:
    """List which answers used a record and in which version, by the receipts that are kept.

    Raises Refused: for an invalid cursor.
    """
    listed = ListReceipts(request.guid, limit=request.limit, cursor=request.cursor)
    page = list_receipts(tx, listed, context)
    present: dict[str, int] = {}
    for _, _, table in _tables(tx, context) if page.items else ():
        present |= table.numbers([request.guid])
    uses: list[RecordUse] = []
    for one in page.items:
        found = next(found for found in one.found if found.guid == request.guid)
        is_present = found.version is not None and found.version == present.get(request.guid)
        about = (one.message, one.agent, one.actor, one.thread)
        uses.append(RecordUse(one.id, one.at, found.version, is_present, found.score, *about))
    return RecordUseList(tuple(uses), page.next_cursor)


def _tables(tx: Transaction, context: Context) -> Iterator[tuple[int, str, ReceiptTable]]:
    """Yield the position, the memory_id and the receipts of each store of the pipeline."""
    for at, store in context.open_existing() or ((0, tx),):
        yield at, store.memory_id, store.table(ReceiptTable)


def _scan(
    tx: Transaction, context: Context, start: tuple[int, int, int], period: tuple[str, str]
) -> Iterator[tuple[str, str, ReceiptTable, Receipt | None]]:
    """Yield (cursor, store, its receipts, receipt) of each receipt from the start on: a store, a
    row and a number in the row. The last one has None if there may be more.
    """
    for at, store, table in _tables(tx, context):
        if at < start[0]:
            continue
        last, skipped = start[1:] if at == start[0] else (LAST_ROW, 0)
        for n, receipts in table.rows(last, *period):
            newest = receipts[::-1]
            for number in range(skipped if n == last else 0, len(newest)):
                yield f"{at}.{n}.{number}", store, table, newest[number]
        if (following := table.find_next(last)) is not None:
            yield f"{at}.{following}.0", store, table, None
            return


def _view(receipt: Receipt, store: str, table: ReceiptTable) -> ReceiptView:
    found = (
        FoundRecord(guid, number or table.find_number(guid, receipt.change), score)
        for guid, number, score in receipt.found
    )
    return ReceiptView(
        receipt.id,
        format_time(read_time(receipt.id)),
        store,
        receipt.change,
        receipt.operation,
        receipt.question,
        receipt.actor,
        receipt.agent,
        receipt.input,
        receipt.thread,
        tuple(found),
        receipt.left_out,
        receipt.fingerprint.view(),
    )


def _parse_time(text: str, name: str) -> str:
    """Return the beginning of the ids of a time, "" for none. Raises Refused."""
    if not text:
        return ""
    time_ms = parse_ms(text)
    if time_ms is None:
        raise Refused(f"`{name}` must be a time such as 2026-11-28T09:00:00Z, or Unix ms")
    return make_time_prefix(time_ms)


def _parse_cursor(cursor: str) -> tuple[int, int, int]:
    """Return the position of a store, a row and a receipt. Raises Refused."""
    if not cursor:
        return 0, LAST_ROW, 0
    if not CURSOR.fullmatch(cursor):
        raise Refused("`cursor` is invalid; omit it to start at the first page")
    store, row, number = map(int, cursor.split("."))
    return store, row, number
