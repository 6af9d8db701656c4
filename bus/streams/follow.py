"""Following swarms' logs live: one reading of each log, however many listen, without a gap when the
server was away."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from typing import Any, Self

import structlog

from memrelay.bus.client.connection import BlockingReads, Connection
from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.client.resp import pack
from memrelay.bus.client.url import Address
from memrelay.bus.errors import BusError, BusRefused
from memrelay.bus.key_types import WrongType, wrong_type_keys
from memrelay.bus.keys import swarm_key
from memrelay.bus.streams.log import LogEntry, parse_log_entry

log = structlog.stdlib.get_logger(__name__)
Deliver = Callable[[list[LogEntry]], None]
BLOCK_MS = 1000
COUNT = 500  # messages of one log in one reading
PAUSE_S = 0.5  # before the server is tried again


class Follower:
    """Reads the logs that somebody follows. Use it as an asynchronous context."""

    def __init__(self, address: Address) -> None:
        """Two connections, opened when they are needed: one waits at the server, the other calls it
        back."""
        self._blocking, self._control = (
            ReconnectingConnection(address),
            ReconnectingConnection(address),
        )
        self._listeners: dict[str, list[Deliver]] = {}
        self._positions: dict[str, bytes | str] = {}  # log -> the last entry that was delivered
        self._odd: set[str] = (
            set()
        )  # logs of another type, for which the server would refuse the reading of all
        self._told: set[WrongType] = set()
        self._changed = asyncio.Event()
        self._connection: Connection | None = None
        self._reads: BlockingReads  # on that connection
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Begins to read."""
        await self._stack.enter_async_context(self._blocking)
        await self._stack.enter_async_context(self._control)
        reading = asyncio.create_task(self._run())
        self._stack.push_async_callback(asyncio.wait, [reading])
        self._stack.callback(reading.cancel)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stops reading."""
        await self._stack.aclose()

    async def follow(self, uid: str, swarm: str, deliver: Deliver) -> Callable[[], None]:
        """From now on `deliver` gets what is said there, in order; call what is returned to end it.
        Raises BusError."""
        key = swarm_key(uid, swarm)
        if key not in self._positions:
            newest: Any = await self._control.call("XREVRANGE", key, "+", "-", "COUNT", 1)
            self._positions.setdefault(key, newest[0][0] if newest else "0-0")
        self._listeners.setdefault(key, []).append(deliver)
        self._wake()
        return lambda: self._leave(key, deliver)

    def _leave(self, key: str, deliver: Deliver) -> None:
        """The log is read no more when nobody is left."""
        listeners = self._listeners.get(key, [])
        with suppress(ValueError):
            listeners.remove(deliver)
        if not listeners:
            self._listeners.pop(key, None)
            self._positions.pop(key, None)

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            if not self._listeners:
                await self._changed.wait()
                continue
            try:
                await self._read()
            except BusError as error:
                if isinstance(error, BusRefused) and error.code == "WRONGTYPE":
                    self._odd |= self._listeners.keys()  # any of them; the next reading finds out
                log.warning("following_paused", reason=str(error), pause_s=PAUSE_S)
                await asyncio.sleep(PAUSE_S)

    async def _read(self) -> None:
        connection = await self._blocking.open()
        if connection is not self._connection:
            self._reads, self._connection = (
                BlockingReads(connection, await self._control.open()),
                connection,
            )
        if self._odd:
            await self._look_for_odd()
        asked = {key: self._positions[key] for key in self._listeners if key not in self._odd}
        if not asked:
            await asyncio.sleep(PAUSE_S)
            return
        reply = await self._reads.read(
            pack("XREAD", "COUNT", COUNT, "BLOCK", BLOCK_MS, "STREAMS", *asked, *asked.values())
        )
        for name, entries in reply or ():
            key = name.decode()
            if (
                self._positions.get(key) == asked[key]
            ):  # else the last one has left meanwhile, and maybe another has come
                self._deliver(key, entries)

    async def _look_for_odd(self) -> None:
        """Somebody may have put another value at a log. Nothing can be read there until it is gone;
        the others go on."""
        wanted = dict.fromkeys(self._odd & self._listeners.keys(), "stream")
        found = await wrong_type_keys(await self._control.open(), wanted)
        self._odd = {odd.key for odd in found}
        for odd in found:
            if odd not in self._told:
                log.error("log_not_followed", reason=str(odd), remedy=odd.remedy)
        self._told = set(found)

    def _deliver(self, key: str, entries: list[tuple[bytes, list[bytes]]]) -> None:
        self._positions[key] = entries[-1][0]
        said = parse_log_entry(entries)
        for deliver in tuple(self._listeners[key]):
            deliver(said)

    def _wake(self) -> None:
        """Another log is to be read: a reading that waits at the server is cut short."""
        self._changed.set()
        if self._connection is not None:
            self._reads.call_back()
