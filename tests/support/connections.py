"""Runs coroutines on a bus connection for tests without an event loop."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.client.url import Address
from memrelay.bus.embedded.launcher import EmbeddedServer

Found = TypeVar("Found")


def run_on_connection(
    server: EmbeddedServer, about: Callable[[ReconnectingConnection], Awaitable[Found]]
) -> Found:
    """Return the result of a coroutine that uses a connection."""

    async def whole() -> Found:
        async with ReconnectingConnection(Address(path=str(server.socket_path))) as line:
            return await about(line)

    return asyncio.run(whole())
