"""Merges full-text segments while a group is idle, so that searches read fewer of them."""

import asyncio
import time
from collections.abc import Iterable, Sequence
from functools import partial

import structlog

from memrelay.memory.errors import StoreBroken, StoreBusy, StoreFenced
from memrelay.memory.sqlite.store import Store
from memrelay.memory.threads import DatabaseThread
from memrelay.worker.run.busy_retry import run_if_exists

log = structlog.stdlib.get_logger(__name__)
# Time without a batch after which merging begins.
IDLE_S = 0.1
# Pause between steps, for the batches of the group.
STEP_PAUSE_S = 0.02


class IndexMergeTask:
    """Merges the indexes of one group's stores. A merged store waits for its next write."""

    def __init__(self, stores: Sequence[str], thread: DatabaseThread) -> None:
        self._stores, self._thread = set(stores), thread
        self._has_work, self._last_batch_s = asyncio.Event(), 0.0
        self._has_work.set()

    @property
    def is_idle(self) -> bool:
        """Whether all stores are merged."""
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
            if not await self._merge(name):
                self._stores.discard(name)
            await asyncio.sleep(STEP_PAUSE_S)

    async def _merge(self, name: str) -> bool:
        try:
            return await self._thread.run(
                partial(run_if_exists, name=name, work=merge_step, absent=False)
            )
        except (StoreBusy, StoreBroken):
            return False


def merge_step(store: Store) -> bool:
    """Merge some pages in a short fenced transaction. Return whether there is more to merge."""
    index = store.segments.to_merge()
    if not index:
        return False
    with store.transaction() as tx:
        merged = tx.segments.merge(index)
    return merged or store.segments.to_merge() not in ("", index)
