"""Access to stores from the event loop: retries while they are busy, and closes damaged ones."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import TypeVar

from memrelay.logs import get_logger
from memrelay.memory.engine.connection import translate_errors
from memrelay.memory.engine.store import Store
from memrelay.memory.engine.stores import OpenStores
from memrelay.memory.engine.threads import DatabaseThread
from memrelay.memory.errors import StoreBroken, StoreBusy, StoreDamaged
from memrelay.worker.metrics import Metrics
from memrelay.worker.waiting import wait

log = get_logger(__name__)
Result = TypeVar("Result")
# Pauses before a retry double from the first to the longest.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 5.0


class BusyRetry:
    """EarlierRuns the work of a group while a store or the catalog is busy or broken.

    Nothing is acknowledged meanwhile. The metrics show the pipelines `uids` as paused, with the
    reason. `stores` are those that the work may touch.
    """

    def __init__(
        self,
        thread: DatabaseThread,
        stores: Sequence[str],
        uids: Collection[str],
        metrics: Metrics,
    ) -> None:
        self.stores = tuple(stores)
        self._thread, self._uids, self._metrics = thread, list(uids), metrics
        self._stopped = asyncio.Event()
        self._pause_s = FIRST_PAUSE_S

    @property
    def has_stopped(self) -> bool:
        """Whether failed work is no longer repeated."""
        return self._stopped.is_set()

    def stop(self) -> None:
        """Raise the next failure instead of repeating the work."""
        self._stopped.set()

    async def in_thread(self, work: Callable[[OpenStores], Result]) -> Result:
        """Run work in the database thread.

        Raises StoreBusy and StoreBroken after `stop`, and StoreFenced.
        """
        while True:
            try:
                result = await self._thread.run(partial(run_guarded, work=work, names=self.stores))
            except (StoreBusy, StoreBroken) as error:
                await self._pause(error)
            else:
                self._resume()
                return result

    async def attempt(self, attempt: Callable[[], Awaitable[Result]]) -> Result:
        """Await work outside the database thread. Raises as `in_thread` does."""
        while True:
            try:
                result = await attempt()
            except (StoreBusy, StoreBroken) as error:
                await self._pause(error)
            else:
                self._resume()
                return result

    async def _pause(self, error: StoreBusy | StoreBroken) -> None:
        if self.has_stopped:
            raise error
        if self._metrics.pause(self._uids, str(error)):
            log.warning("pipeline_paused", pipelines=self._uids, reason=str(error))
        await wait(self._stopped, self._pause_s)
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)

    def _resume(self) -> None:
        self._pause_s = FIRST_PAUSE_S
        if self._metrics.resume(self._uids):
            log.info("pipeline_resumed", pipelines=self._uids)


def run_guarded(
    stores: OpenStores, work: Callable[[OpenStores], Result], names: Sequence[str]
) -> Result:
    """Run work on stores. Close a damaged store with a note before StoreDamaged is raised."""
    try:
        with translate_errors("a store"):
            return work(stores)
    except StoreDamaged as damaged:
        if damaged.noted:  # it could not be opened
            raise
        raise (
            stores.give_up_damaged(names, str(damaged.__cause__ or damaged)) or damaged
        ) from damaged
    except UnicodeDecodeError as error:  # a damaged text
        raise stores.give_up_damaged(names, str(error)) or StoreDamaged(str(error)) from error


def run_if_exists(
    stores: OpenStores, name: str, work: Callable[[Store], Result], absent: Result
) -> Result:
    """Run work on a store; return `absent` if it does not exist, because nothing was written yet.

    Raises StoreBusy and StoreBroken.
    """
    if not stores.exists(name):
        return absent
    with translate_errors(name):
        return work(stores.get(name))
