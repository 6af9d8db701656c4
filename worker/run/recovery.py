"""Recovery: what a group does before it takes anything new. Its stores are its own from then on,
and attempts are over."""

from collections.abc import Collection, Sequence
from functools import partial

import structlog

from memrelay.bus.streams.stream_ids import surpass
from memrelay.memory.errors import StoreFenced
from memrelay.memory.stores import OpenStores
from memrelay.worker.background.store_tasks import (
    close_stores,
    end_recovery,
    last_entries,
    move_ids,
    stores_below,
    take_over,
    take_over_former,
)
from memrelay.worker.ownership.group_lease import GroupLease
from memrelay.worker.run.busy_retry import BusyRetry
from memrelay.worker.run.inputs import AFTER_CALLS
from memrelay.worker.shared import WorkerContext

log = structlog.stdlib.get_logger(__name__)


class Recovery:
    """In this order: `take_over`, then the group works off what it finds, then `end`."""

    def __init__(
        self, stores: list[str], homes: Collection[str], patience: BusyRetry, shared: WorkerContext
    ) -> None:
        """`stores` are those of the versions in service. While it lasts, those of earlier versions
        stand at its end.

        `homes` are those of them that no bundle names, where an earlier version may have worked all
        the same.
        """
        self._stores, self._patience, self._shared = stores, patience, shared
        self._own, self._homes = len(stores), homes
        self._firsts: dict[str, str] = {}  # by pipeline: the first store that its bundle names
        self.lasts = True

    @property
    def former(self) -> tuple[str, ...]:
        """Stores of earlier versions, while it lasts: their inboxes may know what comes back."""
        return (*self._stores[self._own :], *self._homes) if self.lasts else ()

    async def take_over(self, tenure: GroupLease) -> None:
        """No earlier owner may write from now on. The bus may have lost its epochs; those in the
        stores are surpassed too."""
        await self._patience.in_thread(partial(OpenStores.check_commits, told=tenure.told))
        self._firsts = {plan.uid: plan.stores[0] for plan in tenure.plans}
        own, former = tuple(self._stores), await self._former_stores(tenure.uids)
        while True:
            try:
                await self._patience.in_thread(partial(take_over, names=own, epoch=tenure.epoch))
                usable = await self._patience.in_thread(
                    partial(take_over_former, names=former, epoch=tenure.epoch)
                )
            except StoreFenced as fenced:
                await tenure.surpass(fenced.epoch)
                continue
            self._stores += usable
            self._shared.checkpoint("taken over")
            return await self._surpass(tenure)

    async def _surpass(self, tenure: GroupLease) -> None:
        """What an input brings from now on has other ids than what the stores know, though the
        server may not know that."""
        known = await self._patience.in_thread(partial(last_entries, names=tuple(self._stores)))
        for uid in tenure.uids:
            if uid in known and await surpass(tenure.control, uid, known[uid]):
                log.warning(
                    "input_had_lost_entries",
                    pipeline=uid,
                    reason=f"the server no longer knows of {known[uid]}, which is done",
                )

    async def end(self) -> dict[str, list[str]]:
        """What was in flight has an outcome now. Returns, per store, the inputs that cannot come
        back."""
        former = tuple(self._stores[self._own :])
        del self._stores[self._own :]
        settled = await self._patience.in_thread(partial(end_recovery, names=tuple(self._stores)))
        await self._move_ids(former)
        await self._patience.in_thread(partial(close_stores, names=former))
        self.lasts = False
        self._shared.checkpoint("recovered")
        return settled

    async def _move_ids(self, former: Sequence[str]) -> None:
        """What a producer sends again is looked for in the stores of its pipeline's bundle, and
        calls in its home too."""
        for before in (*former, *self._homes):
            uid, first = before.split("/")[1], AFTER_CALLS if before in self._homes else ""
            if uid in self._firsts:
                move = partial(move_ids, uid=uid, before=before, now=self._firsts[uid], first=first)
                while await self._patience.in_thread(move):
                    self._shared.checkpoint("ids moved")

    async def _former_stores(self, uids: Sequence[str]) -> list[str]:
        """The pipelines' own stores that no version in service works on: what an earlier one has
        left is known there alone."""
        below = await self._patience.in_thread(partial(stores_below, uids=uids))
        self._homes = [name for name in self._homes if name in below]
        if below := [name for name in below if name not in self._stores]:
            others = await self._patience.attempt(self._shared.shelf.active)
            below = [name for name in below if all(name not in plan.stores for plan in others)]
        return below
