"""Delete expired records, old history and old changes in short transactions between batches.

Each step runs under the store's fencing epoch. Reads do not depend on it: they skip expired
records.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from memrelay.memory.engine.models import list_rows

# The settings import HISTORY_DAYS, and most commands open no store.
if TYPE_CHECKING:
    from memrelay.memory.engine.store import Store

# Default number of days that earlier versions and deleted records are kept.
HISTORY_DAYS = 90
# Default number of days after which a write without a decision ends.
REVIEW_DAYS = 30.0
DAY_MS = 86_400_000
# Maximum number of deletions per step and kind. A step of short records takes about 10 ms.
MAX_PER_STEP = 1000
# Rows of kept inputs per step. A row has the inputs of a batch.
INPUT_ROWS_PER_STEP = 100
OLDEST_RECEIPT = "SELECT last FROM receipts ORDER BY last LIMIT 1"
DELETE_RECEIPTS = (
    "DELETE FROM receipts WHERE n IN (SELECT n FROM receipts WHERE last < ? ORDER BY last LIMIT ?)"
)
OLDEST_INPUT = "SELECT last_ms FROM inputs ORDER BY n LIMIT 1"
DELETE_INPUTS = (
    "DELETE FROM inputs WHERE last_ms < ? AND n IN (SELECT n FROM inputs ORDER BY n LIMIT ?)"
)
# The last moment before the history stays: the state of then lasted until the next one.
OLDEST_MOMENT = "SELECT at_ms FROM moments ORDER BY change LIMIT 1 OFFSET 1"
DELETE_MOMENTS = (
    "DELETE FROM moments WHERE change IN (SELECT change FROM "
    "(SELECT change, lead(at_ms) OVER (ORDER BY change) AS until "
    "FROM (SELECT * FROM moments ORDER BY change LIMIT ?)) WHERE until < ?)"
)


class RetentionStep(NamedTuple):
    """The result of a retention step."""

    # Number of records, earlier versions, moments, changes, rows of inputs and parked messages
    # deleted.
    gone: int
    # Unix ms at which the next deletion is due, None for never.
    next_ms: int | None


def delete_expired(
    store: "Store",
    now_ms: int,
    history_days: float,
    inputs_days: float | None = None,
    receipts_days: float | None = None,
) -> RetentionStep:
    """Delete some expired records, some history and changes older than `history_days`, and some
    kept inputs older than `inputs_days`, and receipts older than `receipts_days`. None keeps all.
    """
    before_ms = now_ms - int(history_days * DAY_MS)
    days = (history_days, inputs_days, receipts_days)
    next_ms, gone = _next_ms(store, *days), 0
    if next_ms is not None and next_ms <= now_ms:
        with store.transaction() as tx:
            tx.records.set_actor(now_ms, "")
            gone = tx.records.delete_expired(now_ms, MAX_PER_STEP)
            gone += tx.records.versions.delete_expired(now_ms, MAX_PER_STEP)
            gone += tx.records.versions.delete_before(before_ms, MAX_PER_STEP)
            store.connection.execute(DELETE_MOMENTS, (MAX_PER_STEP + 1, before_ms))
            gone += store.connection.changes()
            gone += tx.feed.delete_before(before_ms)
            gone += store.pending.delete_parked(now_ms)
            if inputs_days is not None:
                gone += _delete_inputs(store, now_ms - int(inputs_days * DAY_MS))
            if receipts_days is not None:
                gone += _delete_receipts(store, now_ms - int(receipts_days * DAY_MS))
            gone += _delete_ended_rows(store, now_ms)
        next_ms = _next_ms(store, *days)
    return RetentionStep(gone, next_ms)


def _delete_inputs(store: "Store", before_ms: int) -> int:
    """Delete some rows with inputs from before `before_ms`, and return their number."""
    store.connection.execute(DELETE_INPUTS, (before_ms, INPUT_ROWS_PER_STEP))
    return store.connection.changes()


def _delete_receipts(store: "Store", before_ms: int) -> int:
    """Delete some rows with receipts from before `before_ms`, and return their number."""
    store.connection.execute(DELETE_RECEIPTS, (make_time_prefix(before_ms), INPUT_ROWS_PER_STEP))
    return store.connection.changes()


def _delete_ended_rows(store: "Store", now_ms: int) -> int:
    """Delete some rows of models that have ended, and return their number."""
    gone = 0
    for rows in list_rows():
        if rows.ends:
            ended = f"SELECT rowid FROM {rows.table} WHERE {rows.ends} <= ? LIMIT ?"
            sql = f"DELETE FROM {rows.table} WHERE rowid IN ({ended})"
            store.connection.execute(sql, (now_ms, MAX_PER_STEP))
            gone += store.connection.changes()
    return gone


def _next_ms(
    store: "Store", history_days: float, inputs_days: float | None, receipts_days: float | None
) -> int | None:
    versions = store.records.versions
    moment_ms = store.connection.execute(OLDEST_MOMENT).get
    oldest = [
        oldest_ms
        for oldest_ms in (
            versions.oldest_ms(),
            store.feed.oldest_ms(),
            moment_ms,
            *_oldest_states_ms(store),
        )
        if oldest_ms is not None
    ]
    ends = [
        store.records.expiry.next_ms(),
        versions.next_expiry_ms(),
        store.pending.next_expiry_ms(),
        min(oldest) + int(history_days * DAY_MS) if oldest else None,
        None if inputs_days is None else _next_input_ms(store, inputs_days),
        None if receipts_days is None else _next_receipt_ms(store, receipts_days),
        *_next_ends_ms(store),
    ]
    return min((end for end in ends if end is not None), default=None)


def _oldest_states_ms(store: "Store") -> Iterator[int | None]:
    """Yield when the oldest earlier state of a row of a model ended, Unix ms."""
    for rows in list_rows():
        if rows.is_history:
            yield store.connection.execute(f"SELECT min(ended_at) FROM {rows.table}").get


def _next_ends_ms(store: "Store") -> Iterator[int | None]:
    """Yield when the next row of each model ends, Unix ms."""
    for rows in list_rows():
        if rows.ends:
            yield store.connection.execute(f"SELECT min({rows.ends}) FROM {rows.table}").get


def _next_input_ms(store: "Store", inputs_days: float) -> int | None:
    """Return when the next row of inputs is older than `inputs_days`, Unix ms."""
    last_ms = store.connection.execute(OLDEST_INPUT).get
    return None if last_ms is None else last_ms + int(inputs_days * DAY_MS) + 1


def _next_receipt_ms(store: "Store", receipts_days: float) -> int | None:
    """Return when the next receipt is older than `receipts_days`, Unix ms."""
    oldest = store.connection.execute(OLDEST_RECEIPT).get
    return None if oldest is None else read_time(oldest) + int(receipts_days * DAY_MS) + 1


def make_time_prefix(ms: int) -> str:
    """Return the beginning of the first uuid7 of a time (Unix ms)."""
    return f"{ms >> 16:08x}-{ms & 0xFFFF:04x}"


def read_time(uuid7: str) -> int:
    """Return the time of a uuid7, Unix ms."""
    return int(uuid7[:8] + uuid7[9:13], 16)
