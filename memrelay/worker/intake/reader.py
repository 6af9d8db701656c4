"""Reads the inputs of all pipelines over one connection, for the groups that are ready."""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from memrelay.bus.client.connection import BlockingReads, Connection
from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.client.resp import Word, pack
from memrelay.bus.errors import BusRefused
from memrelay.bus.keys import GROUP, input_key
from memrelay.bus.streams.input_stream import READ_BYTES, count_fitting, measure_command, read_count
from memrelay.pipelines.plan import Plan
from memrelay.worker.limits import WorkerLimits
from memrelay.worker.metrics import Metrics
from memrelay.worker.run.inputs import Entry, make_replay

RawEntries = list[tuple[bytes, list[bytes]]]
BLOCK_MS = 2000
# Entries of one read for all pipelines together. A commit costs as much as many messages, so each
# pipeline gets some at once.
MAX_ENTRIES, MIN_ENTRIES = 64_000, 4
# A read of this many inputs costs milliseconds. It is interrupted only after a pause, so that all
# slots that become free meanwhile share the next read.
MANY_INPUTS = 100
PAUSE_PER_INPUT_S = 20e-6
# An input is measured before a read if it was not known to be short within this time.
CHECK_S = 0.1


class Slot:
    """Holds the entries of one pipeline that were read and not taken.

    The group takes them when it has less than one batch left. `wake_event` wakes the group.
    """

    def __init__(self, plan: Plan, wake_event: asyncio.Event) -> None:
        self.plan = plan
        self._wake_event = wake_event
        self._entries: list[Entry] = []
        self._is_open = False
        # When the input was measured, or had no entries left.
        self._checked_s = float("-inf")
        # The reader's callback: read this pipeline again.
        self.on_free: Callable[[], None] = lambda: None

    @property
    def is_ready(self) -> bool:
        """Whether the pipeline is to be read."""
        return self._is_open and not self._entries

    @property
    def needs_check(self) -> bool:
        """Whether the input may have received many large entries since it was checked."""
        return time.monotonic() - self._checked_s > CHECK_S

    def mark_checked(self) -> None:
        """Note that the input was measured, or has no entries left."""
        self._checked_s = time.monotonic()

    def open(self) -> None:
        """Allow reading: the group has recovered, so every entry from now on is new."""
        self._is_open = True
        self.on_free()

    def fill(self, entries: RawEntries) -> None:
        """Put in entries as the server returns them: ID, and names and values in turn."""
        self._entries = to_entries(self.plan, entries)
        self._wake_event.set()

    def take(self) -> list[Entry]:
        if not self._entries:
            return []
        entries, self._entries = self._entries, []
        self.on_free()
        return entries


def to_entries(plan: Plan, entries: RawEntries) -> list[Entry]:
    return [
        make_replay(ident.decode(), plan, fields)
        if b"replay_of" in fields
        else Entry(ident.decode(), plan, fields)
        for ident, fields in entries
    ]


class Reader:
    """Fills the slots of ready pipelines.

    It waits at the server, and interrupts that wait when another pipeline becomes ready.
    `connections` are one for the reads alone and one for everything rare. `consumer` is the name
    of the lease.
    """

    def __init__(
        self,
        connections: tuple[Connection, Connection],
        control: ReconnectingConnection,
        consumer: str,
        limits: WorkerLimits,
        metrics: Metrics,
    ) -> None:
        self._reads, self._control = BlockingReads(*connections), control
        self._limits, self._consumer, self._metrics = limits, consumer, metrics
        self._writing = connections[1]
        self._slots: dict[bytes, Slot] = {}
        # The keys of the slots to read.
        self._ready: dict[bytes, None] = {}
        # The keys to measure, and those with large entries with the number to read at once.
        self._unchecked: set[bytes] = set()
        self._large: dict[bytes, int] = {}
        # The keys of the read that waits at the server.
        self._reading: frozenset[bytes] = frozenset()
        # Most reads repeat the one before, so its command is kept.
        self._last_keys: list[bytes] = []
        self._command = b""
        # Interrupts the read after a pause.
        self._interrupting: asyncio.TimerHandle | None = None
        self._changed = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._is_parked = True

    async def park(self) -> None:
        """Stop reading. Afterwards no read is under way, and the slots hold all that was read."""
        self._is_parked = True
        self._interrupt()
        await self._idle.wait()

    async def serve(self, slots: Iterable[Slot]) -> None:
        """Read exactly these pipelines. The reader must be parked, as it is at first."""
        before = self._slots
        self._slots = {input_key(slot.plan.uid).encode(): slot for slot in slots}
        for key, slot in self._slots.items():
            slot.on_free = partial(self._wake, key)
        self._ready = {key: None for key, slot in self._slots.items() if slot.is_ready}
        self._unchecked |= {
            key
            for key, slot in self._slots.items()
            if slot.is_ready and before.get(key) is not slot
        }
        self._is_parked = False
        self._changed.set()

    async def run(self) -> None:
        """Read until cancelled. Raises BusUnavailable."""
        while True:
            if self._ready and not self._is_parked:
                self._idle.clear()
                await self._read(list(self._ready))
                continue
            self._idle.set()
            self._changed.clear()
            await self._changed.wait()

    async def _read(self, keys: list[bytes]) -> None:
        if self._unchecked:
            # Another slot may become free meanwhile, so the keys are collected again afterwards.
            await self._check_sizes()
            return
        if self._large and (large := [key for key in keys if key in self._large]):
            for key in large:
                await self._read_large(key)
            if others := [key for key in keys if key not in large]:
                count = self._count_for(others)
                await self._fill(self._pack_read(others, waits=False), others, count)
            return
        if keys != self._last_keys:
            self._last_keys, self._command = keys, self._pack_read(keys)
        self._reading = frozenset(keys)
        await self._fill(self._command, keys, self._count_for(keys))

    async def _check_sizes(self) -> None:
        """Measure inputs of which many entries may wait. Raises BusUnavailable."""
        keys = [key for key in self._unchecked if key in self._slots]
        self._unchecked.clear()
        if not keys:
            return
        commands = b"".join(pack(*measure_command(key)) for key in keys)
        sizes = await asyncio.gather(
            *self._writing.send_together(commands, [(1, 0)] * len(keys)), return_exceptions=True
        )
        for key, size in zip(keys, sizes, strict=True):
            self._large.pop(key, None)
            if isinstance(size, int) and size > READ_BYTES:
                await self._note_large(key, size)
            if key in self._slots:
                self._slots[key].mark_checked()

    async def _note_large(self, key: bytes, size: int) -> None:
        length = await self._writing.call("XLEN", key)
        count = count_fitting(size, length, self._limits.batch)
        if count < self._limits.batch:
            self._large[key] = count

    async def _read_large(self, key: bytes) -> None:
        """Read some entries of an input with large ones, without waiting."""
        count = self._large[key]
        command = pack(*self._read_words(count), "NOACK", "STREAMS", key, ">")
        if await self._fill(command, [key], count) < count:
            self._large.pop(key, None)

    async def _fill(self, command: bytes, keys: list[bytes], count: int) -> int:
        """Read up to `count` entries into each slot. Return how many there were."""
        try:
            reply = await self._reads.read(command)
        except BusRefused as error:
            if error.code not in ("NOGROUP", "UNBLOCKED"):
                raise
            self._metrics.recreated += await create_consumer_groups(self._control, keys)
            return 0
        finally:
            self._reading = frozenset()
        total = 0
        for key, entries in reply or ():
            total += len(entries)
            if key in self._slots:
                self._ready.pop(key, None)
                if len(entries) < count:
                    self._slots[key].mark_checked()
                self._slots[key].fill(entries)
        return total

    def _count_for(self, keys: list[bytes]) -> int:
        return min(self._limits.batch, max(MAX_ENTRIES // len(keys), MIN_ENTRIES))

    def _read_words(self, count: int) -> tuple[Word, ...]:
        return "XREADGROUP", "GROUP", GROUP, self._consumer, "COUNT", count

    def _pack_read(self, keys: list[bytes], *, waits: bool = True) -> bytes:
        return pack(
            *self._read_words(self._count_for(keys)),
            *(("BLOCK", BLOCK_MS) if waits else ()),
            "NOACK",
            "STREAMS",
            *keys,
            *[">"] * len(keys),
        )

    def _wake(self, key: bytes) -> None:
        """Read a free slot again. If the read under way lacks its key, it is interrupted."""
        slot = self._slots.get(key)
        if slot is not None and slot.is_ready:
            self._ready[key] = None
        if slot is not None and slot.needs_check:
            self._unchecked.add(key)
        self._changed.set()
        if not self._reading or key in self._reading:
            return
        if len(self._reading) < MANY_INPUTS:
            self._interrupt()
        elif self._interrupting is None:
            pause_s = len(self._reading) * PAUSE_PER_INPUT_S
            self._interrupting = asyncio.get_running_loop().call_later(pause_s, self._interrupt)

    def _interrupt(self) -> None:
        if self._interrupting is not None:
            self._interrupting.cancel()
            self._interrupting = None
        self._changed.set()
        self._reads.unblock()


async def create_consumer_groups(
    control: ReconnectingConnection, keys: Sequence[bytes | str]
) -> int:
    """Create the owner's group on inputs, from the first entry on. Return how many were missing.

    Finished entries are deleted, so everything in the input is still to do.
    """
    commands = [("XGROUP", "CREATE", key, GROUP, "0", "MKSTREAM") for key in keys]
    replies = await control.call_all(commands, keep_refusals=True)
    refusals = [reply for reply in replies if isinstance(reply, BusRefused)]
    for refusal in refusals:
        if refusal.code != "BUSYGROUP":
            raise refusal
    return len(replies) - len(refusals)


async def read_unfinished(
    control: ReconnectingConnection, slot: Slot, last: bytes, count: int
) -> list[Entry]:
    """Return up to `count` unfinished entries, up to the ID `last`; [] if there are none left.

    There are fewer if entries are large.

    Finished entries are deleted, so these are all entries that the group has read. The server keeps
    no list of them (NOACK), which would cost it more than reading and deleting them.
    """
    key = input_key(slot.plan.uid)
    count = await read_count(control, key, count)
    return to_entries(slot.plan, await control.call("XRANGE", key, "-", last, "COUNT", count))


def find_last_delivered(groups: Iterable[Sequence[Any]]) -> bytes:
    """Return the last ID that the owner's group has read, whichever worker read it.

    `groups` is the reply to XINFO GROUPS.
    """
    for group in map(_to_dict, groups):
        if group[b"name"] == GROUP.encode():
            last: bytes = group[b"last-delivered-id"]
            return last
    return b"0-0"  # the group is gone; the next read creates it


def pack_deletions(
    key: str, consumers: Iterable[Sequence[Any]], consumer: str
) -> list[tuple[Any, ...]]:
    """Return the commands that delete the consumers of earlier owners.

    `consumers` is the reply to XINFO CONSUMERS.
    """
    names = [_to_dict(one)[b"name"] for one in consumers]
    return [
        ("XGROUP", "DELCONSUMER", key, GROUP, name) for name in names if name != consumer.encode()
    ]


def _to_dict(words: Sequence[Any]) -> dict[bytes, Any]:
    return dict(zip(words[::2], words[1::2], strict=True))
