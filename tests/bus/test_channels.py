"""Channels: all listeners share one connection, which is made again after it was lost."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from memrelay.bus.client.url import Address
from memrelay.bus.embedded.launcher import EmbeddedServer
from memrelay.bus.streams.channels import Channels
from tests.support.client import Client

SOON_S = 30


class Heard:
    """Collects payloads."""

    def __init__(self) -> None:
        self.payloads: list[bytes | None] = []
        self._more = asyncio.Event()

    def take(self, payload: bytes | None) -> None:
        self.payloads.append(payload)
        self._more.set()

    async def until(self, payload: bytes | None) -> None:
        async with asyncio.timeout(SOON_S):
            while payload not in self.payloads:
                self._more.clear()
                await self._more.wait()


def listen(server: EmbeddedServer, act: Callable[[Channels, Client], Awaitable[Any]]) -> None:
    async def run() -> None:
        with Client(server.socket_path) as client:
            async with Channels(Address(path=str(server.socket_path))) as channels:
                await act(channels, client)

    asyncio.run(run())


def test_listeners_hear_their_channel_until_they_leave(server: EmbeddedServer) -> None:
    async def act(channels: Channels, client: Client) -> None:
        first, second, other = Heard(), Heard(), Heard()
        leave = await channels.listen("live:{a}", first.take)
        await channels.listen("live:{a}", second.take)
        await channels.listen("live:{b}", other.take)
        client.redis.publish("live:{a}", "1")
        await asyncio.gather(first.until(b"1"), second.until(b"1"))
        leave()
        client.redis.publish("live:{a}", "2")
        client.redis.publish("live:{b}", "3")
        await asyncio.gather(second.until(b"2"), other.until(b"3"))
        assert b"2" not in first.payloads and b"1" not in other.payloads

    listen(server, act)


def test_after_a_lost_connection_listeners_are_told_and_hear_again(server: EmbeddedServer) -> None:
    async def act(channels: Channels, client: Client) -> None:
        heard = Heard()
        await channels.listen("live:{a}", heard.take)
        heard.payloads.clear()
        client.redis.client_kill_filter(_type="pubsub")
        await heard.until(None)
        client.redis.publish("live:{a}", "1")
        await heard.until(b"1")

    listen(server, act)
