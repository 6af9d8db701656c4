"""Merges appended texts and full-text segments while a group is idle, so that reads and searches
have less to do.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from memrelay.logs import get_logger
from memrelay.memory.engine.store import Store
from memrelay.memory.engine.threads import DatabaseThread
from memrelay.memory.errors import StoreBroken, StoreBusy, StoreFenced
from memrelay.worker.run.busy_retry import run_if_exists

log = get_logger(__name__)
# Time without a batch after which merging begins.
IDLE_S = 0.1
# Pause between steps, for the batches of the group.
STEP_PAUSE_S = 0.02


class IndexMergeTask:
    """Merges the indexes of one group's stores. A merged store waits for its next write.

    `contents_changed` is called after appended texts were merged, because vectors are then missing.
    """

    def __init__(
        self,
        stores: Sequence[str],
        thread: DatabaseThread,
        contents_changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._stores, self._thread = set(stores), thread
        self._contents_changed = contents_changed
        self._has_work, self._last_batch_s = asyncio.Event(), 0.0
        self._has_work.set()

    @property
    def is_idle(self) -> bool:
        return not self._stores

    def rest(self) -> None:
        """Begin with the knowledge that all stores are merged."""
        self._stores.clear()

    def wake(self, stores: Iterable[str]) -> None:
        """Announce a batch that wrote to these stores."""
        self._stores.update(stores)
        self._last_batch_s = time.monotonic()
        self._has_work.set()

    async def run(self) -> None:
        """Work until cancelled or fenced. Raises nothing: batches report unusable stores."""
        try:
            while True:
                await self._has_work.wait()
                while (left_s := self._last_batch_s + IDLE_S - time.monotonic()) > 0:
                    await asyncio.sleep(left_s)
                self._has_work.clear()
                await self._merge_until_busy()
        except StoreFenced:
            log.warning("index_merge_stopped", stores=sorted(self._stores))

    async def _merge_until_busy(self) -> None:
        while self._stores and not self._has_work.is_set():
            name = min(self._stores)
            if await self._run_step(name, merge_appended):
                self._contents_changed()
            elif not await self._run_step(name, merge_step):
                self._stores.discard(name)
            await asyncio.sleep(STEP_PAUSE_S)

    async def _run_step(self, name: str, step: Callable[[Store], bool]) -> bool:
        try:
            return await self._thread.run(
                partial(run_if_exists, name=name, work=step, absent=False)
            )
        except (StoreBusy, StoreBroken):
            return False


def merge_appended(store: Store) -> bool:
    """Merge the appended texts of one long record. Return whether there were any."""
    rows = store.records.appends.rows()
    if rows:
        with store.transaction() as tx:
            tx.records.merge_appended(rows[:1])
    return bool(rows)


def merge_step(store: Store) -> bool:
    """Merge some pages in a short fenced transaction. Return whether there is more to merge."""
    index = store.segments.to_merge()
    if not index:
        return False
    with store.transaction() as tx:
        merged = tx.segments.merge(index)
    return merged or store.segments.to_merge() not in ("", index)
