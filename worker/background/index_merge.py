"""Merges the indexes of a group's stores while there is nothing else to do, so that a search looks
into few segments."""

import asyncio
import time
from collections.abc import Iterable, Sequence
from functools import partial

import structlog

from memrelay.memory.errors import StoreBroken, StoreBusy, StoreFenced
from memrelay.memory.sqlite.store import Store
from memrelay.memory.threads import DatabaseThread
from memrelay.worker.background.store_tasks import if_there

# What is merged of a store's indexes beside its batches: each step is a short transaction of its
# own, under the fence.


def merge_some(store: Store) -> bool:
    """Merges some pages of what is worth it; whether there is more to do."""
    index = store.segments.to_merge()
    if not index:
        return False
    with store.transaction() as tx:
        merged = tx.segments.merge(index)
    return merged or store.segments.to_merge() not in ("", index)


log = structlog.stdlib.get_logger(__name__)
QUIET_S = 0.1  # after the last batch
PAUSE_S = 0.02  # between two steps, for the group's own work


class IndexMergeTask:
    """For one group. A store that nothing was written to since it was merged is not looked at
    again."""

    def __init__(self, stores: Sequence[str], thread: DatabaseThread) -> None:
        """All of the stores are looked at first."""
        self._stores, self._thread = set(stores), thread
        self._worked, self._last = asyncio.Event(), 0.0
        self._worked.set()

    def wake(self, stores: Iterable[str]) -> None:
        """A batch was worked on, which wrote to these."""
        self._stores.update(stores)
        self._last = time.monotonic()
        self._worked.set()

    async def run(self) -> None:
        """Until it is cancelled, or fenced. It raises nothing: a store that cannot be used is found
        by the group's own work."""
        try:
            while True:
                await self._worked.wait()
                while (left_s := self._last + QUIET_S - time.monotonic()) > 0:
                    await asyncio.sleep(left_s)
                self._worked.clear()
                await self._round()
        except StoreFenced:
            log.warning("merging_left", stores=sorted(self._stores))

    async def _round(self) -> None:
        """Until nothing is left to do, or there is other work again."""
        while self._stores and not self._worked.is_set():
            if not await self._step(name := min(self._stores)):
                self._stores.discard(name)
            await asyncio.sleep(PAUSE_S)

    async def _step(self, name: str) -> bool:
        try:
            return await self._thread.run(
                partial(if_there, name=name, work=merge_some, absent=False)
            )
        except (StoreBusy, StoreBroken):
            return False
