"""Following logs live: each message once and in order, with many listeners and a failing server."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memrelay.bus.client.url import Address
from memrelay.bus.embedded.launcher import EmbeddedServer
from memrelay.bus.errors import BusUnavailable
from memrelay.bus.streams.follow import Follower
from memrelay.bus.streams.log import LogEntry
from tests.support.client import Client, swarm_of
from tests.support.server import running_server

SOON_S = 60


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    with running_server(tmp_path / "bus") as server:
        yield server


def follow(server: EmbeddedServer, act: Callable[[Follower, Client], Awaitable[Any]]) -> Any:
    """Return the result of `act` with a follower and a client that publishes."""

    async def run() -> Any:
        with Client(server.socket_path) as client:
            async with Follower(Address(path=str(server.socket_path))) as follower:
                return await act(follower, client)

    return asyncio.run(run())


def publish(client: Client, uid: str, *texts: str) -> None:
    for text in texts:
        client.redis.xadd(swarm_of(uid, "chat"), {"mid": text, "data": "{}"})


class Listener:
    """Collects the messages of one listener."""

    def __init__(self) -> None:
        self.received: list[str] = []
        self._more = asyncio.Event()

    def take(self, entries: list[LogEntry]) -> None:
        self.received += [entry.mid for entry in entries]
        self._more.set()

    async def until(self, text: str) -> list[str]:
        """Return all received messages once `text` is among them."""
        async with asyncio.timeout(SOON_S):
            while text not in self.received:
                self._more.clear()
                await self._more.wait()
        return self.received


def test_a_listener_receives_later_messages(server: EmbeddedServer) -> None:
    async def act(follower: Follower, client: Client) -> list[str]:
        listener = Listener()
        publish(client, "a", "before")
        await follower.follow("a", "chat", listener.take)
        publish(client, "a", "one", "two")
        return await listener.until("two")

    assert follow(server, act) == ["one", "two"]


def test_many_listeners_of_a_log_share_one_read(server: EmbeddedServer) -> None:
    async def act(follower: Follower, client: Client) -> None:
        everyone = [Listener() for _ in range(100)]
        for listener in everyone:
            await follower.follow("a", "chat", listener.take)
        publish(client, "a", *map(str, range(50)))
        received = [await listener.until("49") for listener in everyone]
        assert received == [[str(number) for number in range(50)]] * 100
        assert len(client.redis.client_list()) == 3

    follow(server, act)


def test_a_new_log_is_followed_at_once_during_a_blocking_read(
    server: EmbeddedServer,
) -> None:
    async def act(follower: Follower, client: Client) -> float:
        first, second, loop = Listener(), Listener(), asyncio.get_running_loop()
        await follower.follow("a", "chat", first.take)
        await asyncio.sleep(0.1)
        began = loop.time()
        await follower.follow("b", "chat", second.take)
        publish(client, "b", "hello")
        await second.until("hello")
        assert first.received == []
        return loop.time() - began

    assert follow(server, act) < 0.5  # a read blocks for a second


def test_a_log_of_a_wrong_type_stops_no_other_and_is_followed_again_once_it_is_deleted(
    server: EmbeddedServer,
) -> None:
    async def act(follower: Follower, client: Client) -> list[list[str]]:
        sound, wrong = Listener(), Listener()
        await follower.follow("a", "chat", sound.take)
        await follower.follow("b", "chat", wrong.take)
        client.redis.set(swarm_of("b", "chat"), "no log")
        publish(client, "a", "one")
        await sound.until("one")
        client.redis.delete(swarm_of("b", "chat"))
        await asyncio.sleep(0)
        publish(client, "b", "again")
        return [sound.received, await wrong.until("again")]

    assert follow(server, act) == [["one"], ["again"]]


def test_a_listener_that_leaves_receives_no_more_and_others_do(server: EmbeddedServer) -> None:
    async def act(follower: Follower, client: Client) -> list[list[str]]:
        one, other = Listener(), Listener()
        leave = await follower.follow("a", "chat", one.take)
        await follower.follow("a", "chat", other.take)
        publish(client, "a", "one")
        await one.until("one")
        leave()
        leave()
        publish(client, "a", "two")
        await other.until("two")
        return [one.received, other.received]

    assert follow(server, act) == [["one"], ["one", "two"]]


def test_a_listener_after_the_last_one_left_receives_only_new_messages_once(
    server: EmbeddedServer,
) -> None:
    async def act(follower: Follower, client: Client) -> None:
        for turn in range(100):
            first, second = Listener(), Listener()
            leave = await follower.follow("a", "chat", first.take)
            publish(
                client, "a", f"{turn} old"
            )  # may be on its way when the first listener has left
            leave()
            leave = await follower.follow("a", "chat", second.take)
            publish(client, "a", f"{turn} new")
            assert await second.until(f"{turn} new") == [f"{turn} new"]
            leave()

    follow(server, act)


def test_more_messages_than_one_read_returns_arrive_in_order(server: EmbeddedServer) -> None:
    async def act(follower: Follower, client: Client) -> list[str]:
        listener = Listener()
        await follower.follow("a", "chat", listener.take)
        with client.redis.pipeline(transaction=True) as pipe:
            for number in range(2000):
                pipe.xadd(
                    swarm_of("a", "chat"),
                    {"mid": str(number), "data": "{}"} if number % 7 else {"note": "foreign"},
                )
            pipe.execute()
        return await listener.until("1999")

    assert follow(server, act) == [str(number) for number in range(2000) if number % 7]


def test_a_killed_server_causes_neither_gaps_nor_duplicates(server: EmbeddedServer) -> None:
    async def act(follower: Follower, client: Client) -> list[str]:
        listener = Listener()
        await follower.follow("a", "chat", listener.take)
        for turn in range(3):
            publish(client, "a", *[f"{turn}-{number}" for number in range(10)])
            assert server.pid is not None
            os.kill(server.pid, signal.SIGKILL)
            os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOWAIT)
            client.redis.connection_pool.disconnect()
            server.start()
            publish(client, "a", f"{turn}-last")
        return await listener.until("2-last")

    assert follow(server, act) == [
        f"{turn}-{number}" for turn in range(3) for number in [*range(10), "last"]
    ]


def test_following_fails_without_a_server(server: EmbeddedServer) -> None:
    server.stop()

    async def act(follower: Follower, _: Client) -> None:
        with pytest.raises(BusUnavailable):
            await follower.follow("a", "chat", Listener().take)

    follow(server, act)
