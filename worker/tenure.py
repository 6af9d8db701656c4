"""A tenure: the time for which a worker owns the pipelines of a group, under one epoch."""

from collections.abc import Sequence

from bus.connection import Connection
from bus.errors import Fenced
from bus.lease import Lease
from bus.renewal import renew
from bus.wire import input_key
from pipelines.plan import Plan
from worker.commits import read_commits
from worker.inputs import Entry
from worker.ownership import Place
from worker.reader import create_group, last_delivered, undone
from worker.slot import Slot

TOGETHER = 256  # entries at a time


class Tenure:
    """Over when the worker lets the pipelines go, or is taken for dead."""

    def __init__(
        self, plans: Sequence[Plan], lease: Lease, place: Place, control: Connection
    ) -> None:
        """Nothing is owned yet."""
        self.plans, self.uids = plans, sorted(plan.uid for plan in plans)
        self._lease, self._place, self.control = lease, place, control
        self.epoch = 0
        self._last: dict[str, bytes] = {}  # by pipeline: how far its input was read before
        self.told: list[tuple[str, str]] = []  # (store, its last commit that the bus was told of)
        self.after_crash = True  # what is in flight is run one by one

    async def begin(self, at_least: int = 0) -> bool:
        """Whether all of them are this worker's now. Raises Fenced."""
        while True:
            grant = await self._lease.acquire(self.uids, at_least)
            if not grant.holder or not self._place.has_ended(grant.holder):
                self.epoch = grant.epoch
                return bool(grant.epoch)
            await self._lease.declare_dead(grant.holder)

    async def surpass(self, epoch: int) -> None:
        """Goes on under an epoch above this one, which a store knows. Raises Fenced where another
        worker owns them."""
        if not await self.begin(epoch):
            raise Fenced("another worker took these pipelines over; this one begins anew")

    async def open(self) -> int:
        """The inputs can be read. Returns how many had no consumer group."""
        made = [await create_group(self.control, input_key(plan.uid)) for plan in self.plans]
        for uid in self.uids:
            await renew(self.control, uid)
        self.told = await read_commits(self.control, self.uids)
        return sum(made)

    async def undone(self, slot: Slot) -> list[Entry]:
        """Some of what was delivered to whomever and is not done."""
        uid = slot.plan.uid
        if uid not in self._last:
            self._last[uid] = await last_delivered(self.control, slot.plan)
        return await undone(self.control, slot, self._last[uid], self._lease.name, TOGETHER)
