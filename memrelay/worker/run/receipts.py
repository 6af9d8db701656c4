"""Writes the receipts of read-only calls. Loaded with the first one."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any

from memrelay.logs import get_logger
from memrelay.memory.engine.models import list_hooks, load
from memrelay.memory.engine.stores import OpenStores
from memrelay.memory.engine.threads import DatabaseThread
from memrelay.memory.errors import StoreBroken, StoreBusy, StoreFenced
from memrelay.worker.run.busy_retry import run_guarded

log = get_logger(__name__)
# A crash can lose the receipts of this time.
WITHIN_S = 1.0


class ReceiptWriter:
    """Collects receipts of calls, and writes them together in one commit for each store.

    `stores` are those of `thread`.
    """

    def __init__(self, thread: DatabaseThread, stores: Sequence[str]) -> None:
        self._thread, self._stores = thread, stores
        self._loop = asyncio.get_running_loop()
        self._waiting: defaultdict[str, list[Any]] = defaultdict(list)
        self._timer: asyncio.TimerHandle | None = None
        self._tasks = set[asyncio.Task[None]]()

    def add(self, memory_id: str, receipt: Any) -> None:
        """Take the receipt of a read of a store. It is written within WITHIN_S."""
        self._waiting[memory_id].append(receipt)
        if self._timer is None:
            self._timer = self._loop.call_later(WITHIN_S, self._begin)

    def _begin(self) -> None:
        task = self._loop.create_task(self.write())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def write(self) -> None:
        """Write what waits. A store that cannot be used now keeps its receipts for later."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, defaultdict(list)
        for memory_id, receipts in waiting.items():
            work = partial(_write, memory_id=memory_id, receipts=receipts)
            try:
                await self._thread.run(partial(run_guarded, work=work, names=self._stores))
            except (StoreBusy, StoreBroken) as error:
                log.warning("receipts_delayed", memory_id=memory_id, reason=str(error))
                for receipt in receipts:
                    self.add(memory_id, receipt)
            except StoreFenced:
                log.warning("receipts_lost", memory_id=memory_id, count=len(receipts))


def _write(stores: OpenStores, memory_id: str, receipts: Sequence[Any]) -> None:
    with stores.get(memory_id).transaction() as tx:
        table: Any = tx.table(load(list_hooks("receipt_table")[0]))
        table.add_all(receipts)
