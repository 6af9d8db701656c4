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
from memrelay.memory.models.receipts.table import LAST_ID, Receipt, ReceiptTable, Wanted
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.paging import Limit
from memrelay.memory.records.view import Guid

CURSOR = re.compile(r"([0-9]{1,4})\.([0-9a-f-]{36})", re.ASCII)
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
            return _view(found, store)
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
    size, last = 0, ""
    for cursor, store, receipt in _scan(tx, wanted, period, request, context):
        if receipt is None:
            return ReceiptList(tuple(items), cursor)
        size += len(receipt.question) + RECEIPT_BYTES + FOUND_BYTES * receipt.found.count("[")
        if items and size > context.result_bytes:
            return ReceiptList(tuple(items), last)
        items.append(_view(receipt, store))
        last = cursor
        if len(items) == request.limit:
            return ReceiptList(tuple(items), last)
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
    tx: Transaction,
    wanted: Wanted,
    period: tuple[str, str],
    request: ListReceipts,
    context: Context,
) -> Iterator[tuple[str, str, Receipt | None]]:
    """Yield (cursor after it, store, receipt). The last one has None if there may be more."""
    start, before = _parse_cursor(request.cursor)
    for at, store, table in _tables(tx, context):
        if at < start:
            continue
        last = min(before, period[1]) if at == start and before else period[1]
        end = table.find_end(period[0], last)
        for receipt in table.page(wanted, end or period[0], last, request.limit):
            yield f"{at}.{receipt.id}", store, receipt
        if end:
            yield f"{at}.{end}", store, None
            return


def _view(receipt: Receipt, store: str) -> ReceiptView:
    return ReceiptView(
        receipt.id,
        format_time(read_time(receipt.id)),
        store,
        receipt.change,
        receipt.operation,
        orjson.loads(receipt.question) if receipt.question else None,
        receipt.actor,
        receipt.agent,
        receipt.input,
        receipt.thread,
        tuple(FoundRecord(*one) for one in orjson.loads(receipt.found)),
        receipt.left_out,
        orjson.loads(receipt.fingerprint),
    )


def _parse_time(text: str, name: str) -> str:
    """Return the beginning of the ids of a time, "" for none. Raises Refused."""
    if not text:
        return ""
    time_ms = parse_ms(text)
    if time_ms is None:
        raise Refused(f"`{name}` must be a time such as 2026-11-28T09:00:00Z, or Unix ms")
    return make_time_prefix(time_ms)


def _parse_cursor(cursor: str) -> tuple[int, str]:
    """Return the position of a store, and the id before which to continue. Raises Refused."""
    if not cursor:
        return 0, ""
    match = CURSOR.fullmatch(cursor)
    if match is None:
        raise Refused("`cursor` is invalid; omit it to start at the first page")
    return int(match[1]), match[2]
