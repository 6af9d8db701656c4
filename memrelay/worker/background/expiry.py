"""Deletes expired records and old versions in the background, a few at a time between batches."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from memrelay.bus.lease.workers import BusClock
from memrelay.logs import get_logger
from memrelay.memory.engine.retention import RetentionStep, delete_expired
from memrelay.memory.engine.stores import OpenStores
from memrelay.memory.engine.threads import DatabaseThread
from memrelay.memory.errors import StoreBroken, StoreBusy, StoreFenced
from memrelay.worker.run.busy_retry import run_if_exists
from memrelay.worker.waiting import wait

log = get_logger(__name__)
# Pause between rounds under constant writes, and after a failure.
ROUND_PAUSE_S = 5.0
# Pause between steps. The steps then take less than 5 % of the time, so that nearly all batches and
# reads of the group meet none. Few large steps wait less for the disk than many small ones.
STEP_PAUSE_S = 0.25
# Maximum sleep, because a clock may be changed.
MAX_SLEEP_S = 3600.0
NOTHING_DELETED = RetentionStep(0, None)


class Retention(NamedTuple):
    """How many days data is kept: the history of each store, and inputs and receipts by store."""

    history: float
    inputs: Mapping[str, float]
    receipts: Mapping[str, float]


class ExpiryTask:
    """Deletes what has expired in the stores of one group.

    A store is not read again while nothing in it expires and nothing is written. Earlier versions,
    deleted records and inputs are kept for `days`. `announce` receives the last change of each
    store whose change feed has grown.

    Expiry follows the clock of the bus, as the times of records do. A wrong clock of this machine
    deletes nothing early.
    """

    def __init__(
        self,
        stores: Sequence[str],
        thread: DatabaseThread,
        days: Retention,
        clock: BusClock,
        announce: Callable[[dict[str, int]], None],
    ) -> None:
        self._stores, self._thread, self._days = tuple(stores), thread, days
        self._clock, self._announce = clock, announce
        self._has_writes = asyncio.Event()
        # When more expires (Unix ms), None for never. It is not known during a round.
        self.due_ms: int | None = None
        self._is_due_known = False

    @property
    def is_idle(self) -> bool:
        return self._is_due_known and not self._has_writes.is_set()

    def rest(self, due_ms: int | None) -> None:
        """Begin with the knowledge when more expires."""
        self.due_ms, self._is_due_known = due_ms, True

    def wake(self) -> None:
        """Announce that something was written."""
        self._has_writes.set()

    async def run(self) -> None:
        """Work until cancelled or fenced. Raises nothing: batches report unusable stores."""
        try:
            if self._is_due_known:
                await wait(self._has_writes, self._left_s)
            while True:
                self._has_writes.clear()
                self._is_due_known = False
                await self._run_round()
                await wait(self._has_writes, self._left_s)
                await asyncio.sleep(ROUND_PAUSE_S)
        except StoreFenced:
            log.warning("expiry_stopped", stores=self._stores)

    async def _run_round(self) -> None:
        """Delete everything expired in all stores, and note when more expires."""
        now_ms = self._clock.now_ms
        existing = await self._thread.run(partial(_find_existing, names=self._stores))
        ends = [end for name in existing if (end := await self._delete(name, now_ms)) is not None]
        self.due_ms, self._is_due_known = min(ends, default=None), True

    @property
    def _left_s(self) -> float | None:
        """The seconds until more expires, None for never."""
        if self.due_ms is None:
            return None
        return min(max((self.due_ms - self._clock.now_ms) / 1000, 0.0), MAX_SLEEP_S)

    async def _delete(self, name: str, now_ms: int) -> int | None:
        """Delete everything expired in one store. Return when more expires, in Unix ms."""
        step = partial(
            delete_expired,
            now_ms=now_ms,
            history_days=self._days.history,
            inputs_days=self._days.inputs.get(name, 0),
            receipts_days=self._days.receipts.get(name, 0),
        )
        work = partial(run_if_exists, name=name, work=step, absent=NOTHING_DELETED)
        total = 0
        try:
            while (deleted := await self._thread.run(work)).gone:
                total += deleted.gone
                await asyncio.sleep(STEP_PAUSE_S)
        except (StoreBusy, StoreBroken):
            return now_ms
        if total:
            log.info("expired_deleted", memory_id=name, count=total)
            await self._announce_changes(name)
        return deleted.next_ms

    async def _announce_changes(self, name: str) -> None:
        take_last = partial(
            run_if_exists, name=name, work=lambda store: store.feed.take_last(), absent=None
        )
        with suppress(StoreBusy, StoreBroken):
            if (last := await self._thread.run(take_last)) is not None:
                self._announce({name: last})


def _find_existing(stores: OpenStores, names: Sequence[str]) -> list[str]:
    return [name for name in names if stores.exists(name)]
