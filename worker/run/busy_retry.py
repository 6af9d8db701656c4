"""Patience: a group's work in its database thread, again and again while a store or the catalogue
is busy."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import TypeVar

import structlog

from memrelay.memory.errors import StoreBroken, StoreBusy
from memrelay.memory.stores import OpenStores
from memrelay.memory.threads import DatabaseThread
from memrelay.worker.background.store_tasks import guarded
from memrelay.worker.metrics import Metrics
from memrelay.worker.waiting import wait

log = structlog.stdlib.get_logger(__name__)
Result = TypeVar("Result")
PAUSE_S, LONGEST_PAUSE_S = 0.05, 5.0  # before a batch is tried again whose store was busy


class BusyRetry:
    """Nothing is acknowledged meanwhile, and whoever asks for the pipelines is told why they are
    paused."""

    def __init__(
        self, thread: DatabaseThread, stores: list[str], uids: Collection[str], tally: Metrics
    ) -> None:
        """`stores` are those that the work touches; others may be added to the list."""
        self._thread, self._stores, self._uids, self._tally = thread, stores, list(uids), tally
        self._over = asyncio.Event()

    @property
    def over(self) -> bool:
        """Whether nothing is tried again any more."""
        return self._over.is_set()

    def end(self) -> None:
        """What is busy from now on is given up."""
        self._over.set()

    async def in_thread(self, work: Callable[[OpenStores], Result]) -> Result:
        """Runs work in the database thread. Raises StoreBusy and StoreBroken when patience is over,
        and StoreFenced."""
        return await self.attempt(
            partial(self._thread.run, partial(guarded, work=work, names=self._stores))
        )

    async def attempt(self, attempt: Callable[[], Awaitable[Result]]) -> Result:
        """Whatever may find something busy. Raises as `in_thread` does."""
        pause_s = PAUSE_S
        while True:
            try:
                result = await attempt()
                if self._tally.resume(self._uids):
                    log.info("pipeline_resumed", pipelines=self._uids)
                return result
            except (StoreBusy, StoreBroken) as error:
                if self.over:
                    raise
                if self._tally.pause(self._uids, str(error)):
                    log.warning("pipeline_paused", pipelines=self._uids, reason=str(error))
            await wait(self._over, pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
