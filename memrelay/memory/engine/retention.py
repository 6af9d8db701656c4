"""Delete expired records, old history and old changes in short transactions between batches.

Each step runs under the store's fencing epoch. Reads do not depend on it: they skip expired
records.
"""

from typing import TYPE_CHECKING, NamedTuple

# The settings import HISTORY_DAYS, and most commands open no store.
if TYPE_CHECKING:
    from memrelay.memory.engine.store import Store

# Default number of days that earlier versions and deleted records are kept.
HISTORY_DAYS = 90
DAY_MS = 86_400_000
# Maximum number of deletions per step and kind. A step of short records takes about 10 ms.
MAX_PER_STEP = 1000


class RetentionStep(NamedTuple):
    """The result of a retention step."""

    # Number of records, earlier versions, changes and parked messages deleted.
    gone: int
    # Unix ms at which the next deletion is due, None for never.
    next_ms: int | None


def delete_expired(store: "Store", now_ms: int, history_days: float) -> RetentionStep:
    """Delete some expired records, and some history and changes older than `history_days`."""
    before_ms = now_ms - int(history_days * DAY_MS)
    next_ms, gone = _next_ms(store, history_days), 0
    if next_ms is not None and next_ms <= now_ms:
        with store.transaction() as tx:
            tx.records.set_actor(now_ms, "")
            gone = tx.records.delete_expired(now_ms, MAX_PER_STEP)
            gone += tx.records.versions.delete_expired(now_ms, MAX_PER_STEP)
            gone += tx.records.versions.delete_before(before_ms, MAX_PER_STEP)
            gone += tx.feed.delete_before(before_ms)
            gone += store.pending.delete_parked(now_ms)
        next_ms = _next_ms(store, history_days)
    return RetentionStep(gone, next_ms)


def _next_ms(store: "Store", history_days: float) -> int | None:
    versions = store.records.versions
    oldest = [
        oldest_ms
        for oldest_ms in (versions.oldest_ms(), store.feed.oldest_ms())
        if oldest_ms is not None
    ]
    ends = [
        store.records.expiry.next_ms(),
        versions.next_expiry_ms(),
        store.pending.next_expiry_ms(),
        min(oldest) + int(history_days * DAY_MS) if oldest else None,
    ]
    return min((end for end in ends if end is not None), default=None)
