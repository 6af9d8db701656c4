"""A tenure: the time for which a worker owns the pipelines of a group, under one epoch."""

import re
from collections.abc import Iterable, Mapping, Sequence

from memrelay.bus.client.connection import Connection
from memrelay.bus.client.resp import pack
from memrelay.bus.errors import Fenced
from memrelay.bus.keys import input_key, stores_key
from memrelay.bus.lease.lease import Lease
from memrelay.memory.memory_id import is_memory_id
from memrelay.pipelines.plan import Plan
from memrelay.worker.intake.reader import Slot, create_group, last_delivered, undone
from memrelay.worker.ownership.host_locks import HostLocks
from memrelay.worker.run.inputs import Entry

# What the bus knows of the stores: the last commit of each that was acknowledged, so that one that
# lost some is found out.
#
# `pipeline:{uid}:stores` is a hash from `memory_id` to the store's mark (memory/sqlite/connection.py).

MARK = re.compile(rb"[ -9;-~]*:[0-9]{1,18}")  # anything else is somebody else's, and tells nothing


def commits_to_tell(plans: Iterable[Plan], marks: Mapping[str, str]) -> list[bytes]:
    """The commands, for the MULTI that acknowledges what these commits did; `marks` has the last
    commit of each store."""
    commands = []
    for plan in plans:
        if words := [
            word for name in plan.every_store if name in marks for word in (name, marks[name])
        ]:
            commands.append(pack("HSET", stores_key(plan.uid), *words))
    return commands


async def read_commits(connection: Connection, uids: Iterable[str]) -> list[tuple[str, str]]:
    """(memory_id, mark) of every commit that these pipelines told of. Raises BusUnavailable or
    BusRefused."""
    found = []
    for uid in uids:
        words: list[bytes] = await connection.call("HGETALL", stores_key(uid))
        told = {
            name.decode(errors="replace"): mark
            for name, mark in zip(words[::2], words[1::2], strict=True)
        }
        found += [
            (name, mark.decode())
            for name, mark in told.items()
            if is_memory_id(name) and MARK.fullmatch(mark)
        ]
    return found


TOGETHER = 256  # entries at a time


class GroupLease:
    """Over when the worker lets the pipelines go, or is taken for dead."""

    def __init__(
        self, plans: Sequence[Plan], lease: Lease, place: HostLocks, control: Connection
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
        self.told = await read_commits(self.control, self.uids)
        return sum(made)

    async def undone(self, slot: Slot) -> list[Entry]:
        """Some of what was delivered to whomever and is not done."""
        uid = slot.plan.uid
        if uid not in self._last:
            self._last[uid] = await last_delivered(self.control, slot.plan)
        return await undone(self.control, slot, self._last[uid], self._lease.name, TOGETHER)
