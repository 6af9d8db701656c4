"""What is deleted of a store beside its batches: each step is a short transaction of its own, under
the fence.

Reads do not wait for it: what has expired is told by none of them.
"""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # the settings ask for HISTORY_DAYS, and most commands open no store
    from memrelay.memory.sqlite.store import Store

HISTORY_DAYS = (
    90  # that earlier states and deleted records are kept, unless the owner is told otherwise
)
DAY_MS = 86_400_000
TOGETHER = 200  # that are deleted at once


class RetentionStep(NamedTuple):
    """What a step has come to."""

    gone: int  # how many records and earlier states
    next_ms: int | None  # when there will be something to do, Unix ms; None for never


def delete_expired(store: "Store", now_ms: int, history_days: float) -> RetentionStep:
    """Deletes some records whose time has come, and some of what is kept of changes that are too
    long ago."""
    before_ms = now_ms - int(history_days * DAY_MS)
    next_ms, gone = _next_ms(store, history_days), 0
    if next_ms is not None and next_ms <= now_ms:
        with store.transaction() as tx:
            gone = tx.records.reap_expired(now_ms, TOGETHER)
            gone += tx.records.versions.reap_expired(now_ms, TOGETHER)
            gone += tx.records.versions.reap(before_ms, TOGETHER)
        next_ms = _next_ms(store, history_days)
    return RetentionStep(gone, next_ms)


def _next_ms(store: "Store", history_days: float) -> int | None:
    versions = store.records.versions
    oldest_ms = versions.oldest_ms()
    ends = [
        store.records.expiry.next_ms(),
        versions.next_to_expire(),
        None if oldest_ms is None else oldest_ms + int(history_days * DAY_MS),
    ]
    return min((end for end in ends if end is not None), default=None)
