"""Listens to channels: one connection serves all listeners of a process.

A channel loses what is published while no connection listens. So listeners get None when a
connection is new, and then read what they may have missed from its source.
"""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Self

from memrelay.bus.client.connection import Connection, connect
from memrelay.bus.client.resp import pack
from memrelay.bus.client.url import Address
from memrelay.bus.errors import BusError, BusUnavailable
from memrelay.logs import get_logger

log = get_logger(__name__)
# Receives a payload; None after the connection was lost and made again.
Hear = Callable[[bytes | None], None]
# Before the server is tried again.
PAUSE_S = 0.5
# Between two commands on a connection that is otherwise idle, which also find a cut network.
PING_PAUSE_S = 5.0


class Channels:
    """Listens to the channels that have listeners. Use it as an asynchronous context manager."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._listeners: dict[str, list[Hear]] = {}
        self._connection: Connection | None = None
        self._connecting = asyncio.Lock()
        self._running: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
        if self._connection is not None:
            await self._connection.close()

    async def listen(self, channel: str, hear: Hear) -> Callable[[], None]:
        """Call `hear` with what is published on a channel from now on.

        Call the returned function to end this. Raises BusError.
        """
        hearers = self._listeners.setdefault(channel, [])
        hearers.append(hear)
        with ExitStack() as undo:
            undo.callback(self._end, channel, hear)
            connection = await self._connect()
            await connection.call("SUBSCRIBE", channel)
            undo.pop_all()
        return lambda: self._end(channel, hear)

    def _end(self, channel: str, hear: Hear) -> None:
        hearers = self._listeners.get(channel, [])
        with suppress(ValueError):
            hearers.remove(hear)
        if hearers or self._listeners.pop(channel, None) is None:
            return
        if self._connection is not None:
            self._connection.send(pack("UNSUBSCRIBE", channel))

    async def _connect(self) -> Connection:
        """Return the open connection, on which all channels are subscribed."""
        async with self._connecting:
            if self._connection is None or self._connection.closed.done():
                self._connection = connection = await connect(self._address, self._hear)
                for channel in self._listeners:
                    await connection.call("SUBSCRIBE", channel)
                for hear in [hear for hears in self._listeners.values() for hear in hears]:
                    hear(None)
            if self._running is None:
                self._running = asyncio.create_task(self._keep_open())
            return self._connection

    def _hear(self, channel: bytes, payload: bytes) -> None:
        for hear in tuple(self._listeners.get(channel.decode(), ())):
            hear(payload)

    async def _keep_open(self) -> None:
        """Connect again while there are listeners."""
        while True:
            await asyncio.sleep(PAUSE_S)
            if not self._listeners:
                continue
            try:
                await self._watch(await self._connect())
            except BusError as error:
                log.warning("channels_not_heard", reason=str(error), pause_s=PAUSE_S)

    async def _watch(self, connection: Connection) -> None:
        """Raise BusUnavailable when the connection breaks."""
        while True:
            await asyncio.wait([connection.closed], timeout=PING_PAUSE_S)
            if connection.closed.done():
                raise BusUnavailable("the connection to the server broke")
            await connection.call("PING")
