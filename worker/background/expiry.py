"""Deletes what has had its time in a group's stores, in the background: a few at a time, between
two batches."""

import asyncio
from collections.abc import Sequence
from functools import partial

import structlog

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.errors import BusError
from memrelay.bus.lease.workers import server_time
from memrelay.memory.errors import StoreBroken, StoreBusy, StoreFenced
from memrelay.memory.retention import RetentionStep, delete_expired
from memrelay.memory.threads import DatabaseThread
from memrelay.worker.background.store_tasks import if_there
from memrelay.worker.waiting import wait

log = structlog.stdlib.get_logger(__name__)
GATHER_S = 5.0  # between two looks while much is written, and after a fault
PAUSE_S = 0.02  # between two steps, for the group's own work
LONGEST_S = 3600.0  # a clock may be set
NOTHING = RetentionStep(0, None)


class ExpiryTask:
    """For one group. A store in which nothing ends, and to which nothing is written, is not looked
    at again."""

    def __init__(self, stores: Sequence[str], thread: DatabaseThread, history_days: float) -> None:
        """`history_days` is how long earlier states and deleted records are kept."""
        self._stores, self._thread, self._history_days = tuple(stores), thread, history_days
        self._written = asyncio.Event()

    def wake(self) -> None:
        """Something was written."""
        self._written.set()

    async def run(self, control: ReconnectingConnection) -> None:
        """Until it is cancelled, or fenced. It raises nothing: a store that cannot be used is found
        by the group's own work.

        What is over is so by the bus's clock, as times of records are: deleted by one that is
        wrong, it would not come back.
        """
        try:
            while True:
                self._written.clear()
                await wait(self._written, await self._round(control))
                await asyncio.sleep(GATHER_S)
        except StoreFenced:
            log.warning("reaping_left", stores=self._stores)

    async def _round(self, control: ReconnectingConnection) -> float | None:
        """A step for each store, and further ones where there is more. How many seconds to wait at
        most."""
        try:
            now_ms = await server_time(control)
        except BusError:  # the session ends, or the server refuses for now
            return GATHER_S
        ends = [end for name in self._stores if (end := await self._reap(name, now_ms)) is not None]
        return min(max((min(ends) - now_ms) / 1000, 0.0), LONGEST_S) if ends else None

    async def _reap(self, name: str, now_ms: int) -> int | None:
        """All that is over in one store. When there will be more, Unix time in ms."""
        total, step = 0, partial(delete_expired, now_ms=now_ms, history_days=self._history_days)
        try:
            while (
                reaped := await self._thread.run(
                    partial(if_there, name=name, work=step, absent=NOTHING)
                )
            ).gone:
                total += reaped.gone
                await asyncio.sleep(PAUSE_S)
        except (StoreBusy, StoreBroken):
            return now_ms
        if total:
            log.info("expired_deleted", memory_id=name, count=total)
        return reaped.next_ms
