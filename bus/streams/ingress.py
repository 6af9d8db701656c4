"""The way in for other processes than the owner: appends to the inputs, all of one tick in one
write."""

import asyncio
from dataclasses import dataclass
from typing import Any, Self

from memrelay.bus.client.connection import Connection
from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.client.resp import pack
from memrelay.bus.client.url import Address
from memrelay.bus.errors import BusBusy, BusError, BusRefused
from memrelay.bus.keys import input_key
from memrelay.bus.lease.workers import pauses_of, read_workers
from memrelay.bus.streams.entry import NewEntry

# How much waits in a pipeline's input: asked for in the same write as what is appended, so that it
# costs no round trip.

FRESH_S = 0.1  # for how long an answer of the server's is taken for true
SAMPLES = 100  # nodes of the stream by which the server guesses its size


@dataclass(frozen=True, slots=True)
class IngressLimits:
    """What may wait: for the server, and in one pipeline's input for its worker. Sizes in bytes."""

    waiting: int = 10_000
    waiting_bytes: int = 64 << 20
    backlog: int = 10_000
    backlog_bytes: int = 128 << 20


class Backlog:
    """One input's. What was appended from here since the server was asked is counted too; other
    processes' is not."""

    __slots__ = (
        "_asked_at",
        "_entries",
        "_latest",
        "_lookups",
        "_loop",
        "_most_bytes",
        "_most_entries",
        "_since",
        "_size",
        "_uid",
        "is_full",
    )

    def __init__(self, uid: str, limits: IngressLimits) -> None:
        """Nothing is known yet, and nothing is refused for it."""
        self._uid, self._loop = uid, asyncio.get_running_loop()
        self._most_entries, self._most_bytes = limits.backlog, limits.backlog_bytes
        self.is_full = False  # whether no more is to be appended
        key = input_key(uid)
        self._lookups = pack("XLEN", key), pack("MEMORY", "USAGE", key, "SAMPLES", SAMPLES)
        self._entries = self._size = 0
        self._since = [
            0,
            0,
        ]  # how much of both was appended from here since the server was asked last
        self._asked_at = float("-inf")
        self._latest: asyncio.Future[list[Any]] | None = None

    @property
    def reason(self) -> str:
        """Which bound it has reached."""
        waits, rule = (
            f"{self._entries} messages wait",
            f"bus.max_backlog allows {self._most_entries}",
        )
        if self._entries < self._most_entries:
            waits, rule = (
                f"about {self._size} bytes wait",
                f"bus.max_backlog_bytes allows {self._most_bytes}",
            )
        return f"{waits} for the worker of pipeline {self._uid}, and {rule}; come again in a second"

    def add(self, connection: Connection, size: int) -> None:
        """An entry is sent in this tick; where the last answer is old, the question goes along."""
        self._entries += 1
        self._size += size
        self._since[0] += 1
        self._since[1] += size
        self.is_full = self._entries >= self._most_entries or self._size >= self._most_bytes
        if self._loop.time() - self._asked_at > FRESH_S:
            self._ask(connection)

    async def look(self, connection: Connection) -> None:
        """Returns when what is known is fresh, or cannot be had."""
        if self._loop.time() - self._asked_at > FRESH_S:
            self._ask(connection)
        if self._latest is not None and not self._latest.done():
            await asyncio.wait([self._latest])

    def _ask(self, connection: Connection) -> None:
        self._asked_at, self._since = self._loop.time(), [0, 0]
        self._latest = asyncio.gather(
            *map(connection.send_soon, self._lookups), return_exceptions=True
        )
        self._latest.add_done_callback(self._take)

    def _take(self, latest: asyncio.Future[list[Any]]) -> None:
        """A server that is away, or may not tell a key's size, leaves what was known. No key has no
        size."""
        if latest.cancelled():
            return
        entries, size = latest.result()
        if not isinstance(entries, BusError):
            self._entries = int(entries) + self._since[0]
        if not isinstance(size, BusError):
            self._size = int(size or 0) + self._since[1]
        elif isinstance(size, BusRefused):
            self._size = 0
        self.is_full = self._entries >= self._most_entries or self._size >= self._most_bytes


class Ingress:
    """Appends entries. What arrives in one tick of the event loop shares a write, and at the server
    one sync to disk."""

    def __init__(self, address: Address, limits: IngressLimits | None = None) -> None:
        """Use it as an asynchronous context."""
        self._line, self._limits = ReconnectingConnection(address), limits or IngressLimits()
        self._waiting = self._waiting_bytes = 0
        self._backlogs: dict[str, Backlog] = {}  # by pipeline

    async def __aenter__(self) -> Self:
        """Nothing is opened yet."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Closes the connection."""
        await self._line.__aexit__()

    async def append(self, entry: NewEntry) -> str:
        """Appends an entry, and returns its id once the server has it.

        Raises BusBusy where too much waits already, for the server or in the pipeline's input:
        nothing is appended. Raises
        BusRefused, or BusUnavailable: then it may have been appended all the same, and a producer
        id makes it safe to try
        again.
        """
        size, limits = len(entry.data), self._limits
        if self._waiting >= limits.waiting or self._waiting_bytes >= limits.waiting_bytes:
            raise BusBusy(
                f"{self._waiting} messages wait for the server already; try again in a second"
            )
        self._waiting += 1
        self._waiting_bytes += size
        try:
            connection = self._line.ready or await self._line.open()
            backlog = self._backlogs.get(entry.uid) or self._watch(entry.uid)
            if backlog.is_full:
                await _make_sure(backlog, connection)
            appended = connection.send_soon(entry.pack())
            backlog.add(connection, size)
            ident: bytes = await appended
        finally:
            self._waiting -= 1
            self._waiting_bytes -= size
        return ident.decode()

    async def publish(self, channel: str, payload: bytes) -> int:
        """Publishes, with all that is appended in this tick; how many listen. Raises BusUnavailable
        and BusRefused."""
        return int(
            await (self._line.ready or await self._line.open()).send_soon(
                pack("PUBLISH", channel, payload)
            )
        )

    async def listeners(self, channel: str) -> int:
        """How many listen on a channel. Raises BusUnavailable and BusRefused."""
        told = await (self._line.ready or await self._line.open()).send_soon(
            pack("PUBSUB", "NUMSUB", channel)
        )
        return int(told[1])

    async def pause_of(self, uid: str) -> str:
        """Why a pipeline's worker does not do what waits, as it said last; "" where none does.
        Raises as `publish` does."""
        return pauses_of(await read_workers(self._line)).get(uid, "")

    def _watch(self, uid: str) -> Backlog:
        backlog = self._backlogs[uid] = Backlog(uid, self._limits)
        return backlog


async def _make_sure(backlog: Backlog, connection: Connection) -> None:
    """Raises BusBusy where there is no room now; never on what was known long ago."""
    await backlog.look(connection)
    if backlog.is_full:
        raise BusBusy(backlog.reason)
