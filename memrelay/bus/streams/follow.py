"""Follows swarm logs live: one read serves all listeners, without gaps after a lost connection."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from typing import Any, Self

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.client.url import Address
from memrelay.bus.errors import BusError, BusRefused
from memrelay.bus.key_types import WrongType, wrong_type_keys
from memrelay.bus.keys import swarm_key
from memrelay.bus.streams.log import LogEntry, parse_log_entries
from memrelay.logs import get_logger

log = get_logger(__name__)
Deliver = Callable[[list[LogEntry]], None]
BLOCK_MS = 1000
# Messages of one log per read.
COUNT = 500
# Before the server is tried again.
PAUSE_S = 0.5
# Before CLIENT UNBLOCK is repeated because it arrived before the read that it should end.
UNBLOCK_AGAIN_S = 0.002


class Follower:
    """Reads the logs that have listeners. Use it as an asynchronous context manager."""

    def __init__(self, address: Address) -> None:
        # The first client has one connection, so that CLIENT ID names the one that blocks.
        self._blocking = ReconnectingConnection(address, connections=1)
        self._control = ReconnectingConnection(address)
        self._listeners: dict[str, list[Deliver]] = {}
        self._positions: dict[str, bytes | str] = {}  # log -> the last entry that was delivered
        # Logs of a wrong type: reading one makes the server refuse the whole command.
        self._wrong: set[str] = set()
        self._logged: set[WrongType] = set()
        self._changed = asyncio.Event()
        self._client_id = 0  # of the blocking connection; 0 if unknown
        self._read_number = 0
        self._is_reading = False
        self._unblocking: asyncio.Task[None] | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self._blocking)
        await self._stack.enter_async_context(self._control)
        reading = asyncio.create_task(self._run())
        self._stack.push_async_callback(asyncio.wait, [reading])
        self._stack.callback(reading.cancel)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._unblocking is not None:
            self._unblocking.cancel()
        await self._stack.aclose()

    async def follow(self, uid: str, swarm: str, deliver: Deliver) -> Callable[[], None]:
        """Call `deliver` with the messages of a swarm from now on, in order.

        Call the returned function to end this. Raises BusError.
        """
        key = swarm_key(uid, swarm)
        if key not in self._positions:
            newest: Any = await self._control.call("XREVRANGE", key, "+", "-", "COUNT", 1)
            self._positions.setdefault(key, newest[0][0] if newest else "0-0")
        self._listeners.setdefault(key, []).append(deliver)
        self._changed.set()
        if self._is_reading and (self._unblocking is None or self._unblocking.done()):
            self._unblocking = asyncio.create_task(
                self._unblock(self._read_number, self._client_id)
            )
        return lambda: self._unfollow(key, deliver)

    def _unfollow(self, key: str, deliver: Deliver) -> None:
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
                self._client_id = 0
                if isinstance(error, BusRefused) and error.code == "WRONGTYPE":
                    # It may be any of them; the next read finds out.
                    self._wrong |= self._listeners.keys()
                log.warning("following_paused", reason=str(error), pause_s=PAUSE_S)
                await asyncio.sleep(PAUSE_S)

    async def _read(self) -> None:
        if self._wrong:
            await self._check_types()
        wanted = {key: self._positions[key] for key in self._listeners if key not in self._wrong}
        if not wanted:
            await asyncio.sleep(PAUSE_S)
            return
        for name, entries in await self._read_blocking(wanted) or ():
            key = name.decode()
            # Otherwise the last listener left meanwhile, and perhaps another one came.
            if self._positions.get(key) == wanted[key]:
                self._deliver(key, entries)

    async def _read_blocking(self, wanted: dict[str, bytes | str]) -> Any:
        if not self._client_id:
            self._client_id = await self._blocking.call("CLIENT", "ID")
        self._read_number += 1
        if wanted.keys() != self._listeners.keys() - self._wrong:
            return None  # a listener was added before the read, so there was nothing to unblock
        self._is_reading = True
        try:
            return await self._blocking.call(
                *("XREAD", "COUNT", COUNT, "BLOCK", BLOCK_MS, "STREAMS", *wanted, *wanted.values())
            )
        finally:
            self._is_reading = False

    async def _unblock(self, number: int, client_id: int) -> None:
        """End the read `number`, so that the next one includes a new log.

        The server may receive CLIENT UNBLOCK before the read, so it is repeated.
        """
        with suppress(BusError):
            while self._is_reading and number == self._read_number:
                if await self._control.call("CLIENT", "UNBLOCK", client_id):
                    return
                self._client_id = 0  # perhaps the connection was replaced, with another ID
                await asyncio.sleep(UNBLOCK_AGAIN_S)

    async def _check_types(self) -> None:
        """Find out which logs have a wrong type; the others are read on."""
        expected = dict.fromkeys(self._wrong & self._listeners.keys(), "stream")
        found = await wrong_type_keys(self._control, expected)
        self._wrong = {wrong.key for wrong in found}
        for wrong in found:
            if wrong not in self._logged:
                log.error("log_not_followed", reason=str(wrong), remedy=wrong.remedy)
        self._logged = set(found)

    def _deliver(self, key: str, entries: list[tuple[bytes, list[bytes]]]) -> None:
        self._positions[key] = entries[-1][0]
        messages = parse_log_entries(entries)
        for deliver in tuple(self._listeners[key]):
            deliver(messages)
