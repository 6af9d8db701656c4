"""How much waits in a pipeline's input: asked for in the same write as what is appended, so that it
costs no round trip."""

import asyncio
from dataclasses import dataclass
from typing import Any

from bus.connection import Connection
from bus.errors import BusError, BusRefused
from bus.resp import pack
from bus.wire import input_key

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
