"""The lease of a group: a worker owns the group's pipelines under one fencing epoch.

The bus also remembers the last acknowledged commit of each store, so that a store that lost
commits is detected. `pipeline:{uid}:stores` is a hash from `memory_id` to the store's mark
(memory/sqlite/connection.py).
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.client.resp import pack
from memrelay.bus.errors import Fenced
from memrelay.bus.keys import input_key, stores_key
from memrelay.bus.lease.lease import Lease
from memrelay.memory.memory_id import is_memory_id
from memrelay.pipelines.plan import Plan
from memrelay.worker.intake.reader import (
    Slot,
    create_consumer_group,
    read_last_delivered,
    read_unfinished,
)
from memrelay.worker.ownership.host_locks import HostLocks
from memrelay.worker.run.inputs import Entry

# Other values in the hash are not marks, and are ignored.
MARK = re.compile(rb"[ -9;-~]*:[0-9]{1,18}")
# Entries that are read together during recovery.
ENTRIES_TOGETHER = 256


class GroupLease:
    """Lasts until the worker releases the pipelines or another worker takes them over."""

    def __init__(
        self,
        plans: Sequence[Plan],
        lease: Lease,
        host_locks: HostLocks,
        control: ReconnectingConnection,
    ) -> None:
        self.plans, self.uids = plans, sorted(plan.uid for plan in plans)
        self._lease, self._host_locks, self.control = lease, host_locks, control
        self.epoch = 0
        # By pipeline: the last entry ID that was read before.
        self._last: dict[str, bytes] = {}
        # Each store with its last commit that the bus knows.
        self.commits: list[tuple[str, str]] = []
        # Whether attempts of inputs in flight are counted, because one may have ended the process.
        self.after_crash = True

    async def begin(self, at_least: int = 0) -> bool:
        """Return whether this worker owns all of the pipelines now. Raises Fenced."""
        while True:
            grant = await self._lease.acquire(self.uids, at_least)
            if not grant.holder or not self._host_locks.has_ended(grant.holder):
                self.epoch = grant.epoch
                return bool(grant.epoch)
            await self._lease.declare_dead(grant.holder)

    async def surpass(self, epoch: int) -> None:
        """Continue under an epoch above that of a store. Raises Fenced for a new owner."""
        if not await self.begin(epoch):
            raise Fenced("another worker took over these pipelines; this one reconnects")

    async def open(self) -> int:
        """Prepare the inputs for reading. Return how many had no consumer group."""
        made = [await create_consumer_group(self.control, input_key(uid)) for uid in self.uids]
        self.commits = await read_marks(self.control, self.uids)
        return sum(made)

    async def read_unfinished(self, slot: Slot) -> list[Entry]:
        """Return some of the entries that any worker has read and none has finished."""
        uid = slot.plan.uid
        if uid not in self._last:
            self._last[uid] = await read_last_delivered(self.control, slot.plan)
        return await read_unfinished(
            self.control, slot, self._last[uid], self._lease.name, ENTRIES_TOGETHER
        )


def pack_marks(plans: Iterable[Plan], marks: Mapping[str, str]) -> list[bytes]:
    """Return the commands that record commits, for the MULTI that acknowledges their inputs.

    `marks` has the last commit of each store.
    """
    commands = []
    for plan in plans:
        words: list[str] = []
        for name in plan.all_stores:
            if name in marks:
                words += name, marks[name]
        if words:
            commands.append(pack("HSET", stores_key(plan.uid), *words))
    return commands


async def read_marks(
    connection: ReconnectingConnection, uids: Iterable[str]
) -> list[tuple[str, str]]:
    """Return (memory_id, mark) of the recorded commits. Raises BusUnavailable and BusRefused."""
    found = []
    for uid in uids:
        words: list[bytes] = await connection.call("HGETALL", stores_key(uid))
        for name, mark in zip(words[::2], words[1::2], strict=True):
            memory_id = name.decode(errors="replace")
            if is_memory_id(memory_id) and MARK.fullmatch(mark):
                found.append((memory_id, mark.decode()))
    return found
