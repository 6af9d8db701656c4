"""Reads the inputs of all pipelines over one connection: what has arrived, from those whose group
is ready for it."""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from memrelay.bus.client.connection import BlockingReads, Connection
from memrelay.bus.client.resp import pack
from memrelay.bus.errors import BusRefused
from memrelay.bus.keys import GROUP, input_key
from memrelay.pipelines.plan import Plan
from memrelay.worker.limits import WorkerLimits
from memrelay.worker.metrics import Metrics
from memrelay.worker.run.inputs import Entry, as_entry

# Where the reader leaves a pipeline's next entries for its group: one batch under way, one
# waiting, no more.


class Slot:
    """Holds the entries of one pipeline that were read and not yet taken."""

    def __init__(self, plan: Plan, wanted: asyncio.Event) -> None:
        """`wanted` tells the group that something waits."""
        self.plan = plan
        self._wanted = wanted
        self._entries: list[Entry] = []
        self._open = False  # not before the group has recovered
        self.on_free: Callable[[], None] = lambda: None  # the reader's: read this pipeline again

    @property
    def ready(self) -> bool:
        """Whether the pipeline is to be read."""
        return self._open and not self._entries

    def open(self) -> None:
        """The group has recovered: what comes from now on is new."""
        self._open = True
        self.on_free()

    def fill(self, entries: list[tuple[bytes, list[bytes]]]) -> None:
        """Entries as the server sends them: id, and fields and values in turn."""
        self._entries = as_entries(self.plan, entries)
        self._wanted.set()

    def take(self) -> list[Entry]:
        """What waits."""
        if not self._entries:
            return []
        entries, self._entries = self._entries, []
        self.on_free()
        return entries


def as_entries(plan: Plan, entries: list[tuple[bytes, list[bytes]]]) -> list[Entry]:
    """Raw entries of a stream."""
    return [
        as_entry(ident.decode(), plan, fields)
        if b"replay_of" in fields
        else Entry(ident.decode(), plan, fields)
        for ident, fields in entries
    ]


BLOCK_MS = 2000
MANY = 1000  # what one read takes from all pipelines together, where that is more than a batch


class Reader:
    """Fills the slots. It waits at the server for the pipelines that are ready, and is called back
    when another one is."""

    def __init__(
        self,
        connections: tuple[Connection, Connection],
        consumer: str,
        limits: WorkerLimits,
        tally: Metrics,
    ) -> None:
        """Of the connections one serves the reads alone, and everything rare goes over the other.

        `consumer` is the lease's name; `tally` counts the groups that were gone.
        """
        blocking, self._control = connections
        self._reads, self._limits, self._consumer = (
            BlockingReads(blocking, self._control),
            limits,
            consumer,
        )
        self._tally = tally
        self._slots: dict[bytes, Slot] = {}
        self._asked: frozenset[bytes] = frozenset()  # by the read that waits at the server
        self._last_asked: list[bytes] = []
        self._command = b""  # that asks for these: most reads are like the one before
        self._changed = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._parked = True

    async def park(self) -> None:
        """Stops reading; when this returns, no read is under way and the slots hold all that was
        read."""
        self._parked = True
        self._interrupt()
        await self._idle.wait()

    async def serve(self, slots: Iterable[Slot]) -> None:
        """Reads these from now on, and no others. The reader must be parked, as it is at first."""
        self._slots = {input_key(slot.plan.uid).encode(): slot for slot in slots}
        for key, slot in self._slots.items():
            slot.on_free = partial(self._wake, key)
        self._parked = False
        self._changed.set()

    async def run(self) -> None:
        """Reads until it is cancelled; raises BusUnavailable."""
        while True:
            ready = [] if self._parked else [key for key, slot in self._slots.items() if slot.ready]
            if ready:
                self._idle.clear()
                await self._read(ready)
                continue
            self._idle.set()
            self._changed.clear()
            await self._changed.wait()

    async def _read(self, keys: list[bytes]) -> None:
        if keys != self._last_asked:
            self._last_asked, self._command = keys, self._pack(keys)
        self._asked = frozenset(keys)
        try:
            reply = await self._reads.read(self._command)
        except BusRefused as error:
            if error.code not in ("NOGROUP", "UNBLOCKED"):
                raise
            for key in keys:
                self._tally.recreated += await create_group(self._control, key)
            return
        finally:
            self._asked = frozenset()
        for key, entries in reply or ():
            if key in self._slots:
                self._slots[key].fill(entries)

    def _pack(self, keys: list[bytes]) -> bytes:
        count = max(min(self._limits.batch, MANY // len(keys)), 1)
        return pack(
            "XREADGROUP",
            "GROUP",
            GROUP,
            self._consumer,
            "COUNT",
            count,
            "BLOCK",
            BLOCK_MS,
            "NOACK",
            "STREAMS",
            *keys,
            *[">"] * len(keys),
        )

    def _wake(self, key: bytes) -> None:
        """A slot is free again: if the read under way does not ask for it, that read is cut
        short."""
        self._changed.set()
        if self._asked and key not in self._asked:
            self._interrupt()

    def _interrupt(self) -> None:
        self._changed.set()
        self._reads.call_back()


async def create_group(control: Connection, key: bytes | str) -> bool:
    """The owner's group on an input, from its first entry: what is done is deleted, so whatever is
    there is still to do.

    Returns whether it was not there.
    """
    try:
        await control.call("XGROUP", "CREATE", key, GROUP, "0", "MKSTREAM")
    except BusRefused as error:
        if error.code != "BUSYGROUP":
            raise
        return False
    return True


async def undone(
    control: Connection, slot: Slot, last: bytes, consumer: str, count: int
) -> list[Entry]:
    """Up to `count` of the entries that are not done, up to the `last` that was delivered to
    whomever. [] when none is left.

    What is done is deleted, so these are all that are there as far as the group has read. The
    server keeps no list of them
    (NOACK): that would cost it more than it takes to read and to delete them.
    """
    key = input_key(slot.plan.uid)
    entries = await control.call("XRANGE", key, "-", last, "COUNT", count)
    if not entries:
        await _forget_consumers(control, key, consumer)
    return as_entries(slot.plan, entries)


async def last_delivered(control: Connection, plan: Plan) -> bytes:
    """As far as the group has read, whoever did."""
    for group in await _told(control, "GROUPS", input_key(plan.uid)):
        if group[b"name"] == GROUP.encode():
            last: bytes = group[b"last-delivered-id"]
            return last
    return b"0-0"  # the group is gone, and is made again with the next read


async def _forget_consumers(control: Connection, key: str, consumer: str) -> None:
    """Earlier owners."""
    for other in await _told(control, "CONSUMERS", key, GROUP):
        if other[b"name"] != consumer.encode():
            await control.call("XGROUP", "DELCONSUMER", key, GROUP, other[b"name"])


async def _told(control: Connection, *what: str) -> list[dict[bytes, Any]]:
    """What XINFO says."""
    return [
        dict(zip(words[::2], words[1::2], strict=True))
        for words in await control.call("XINFO", *what)
    ]
