"""Following logs live: everything once and in order, however many listen, come and go, and whatever
the server does."""

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


def follow(server: EmbeddedServer, about: Callable[[Follower, Client], Awaitable[Any]]) -> Any:
    """What comes of something that is done with a follower, while a client speaks."""

    async def whole() -> Any:
        with Client(server.socket_path) as client:
            async with Follower(Address(path=str(server.socket_path))) as follower:
                return await about(follower, client)

    return asyncio.run(whole())


def say(client: Client, uid: str, *texts: str) -> None:
    for text in texts:
        client.redis.xadd(swarm_of(uid, "chat"), {"mid": text, "data": "{}"})


class Ears:
    """What one listener was given."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self._more = asyncio.Event()

    def take(self, said: list[LogEntry]) -> None:
        self.heard += [one.mid for one in said]
        self._more.set()

    async def until(self, text: str) -> list[str]:
        """All that was heard, when the last of it is this."""
        async with asyncio.timeout(SOON_S):
            while text not in self.heard:
                self._more.clear()
                await self._more.wait()
        return self.heard


def test_who_follows_hears_what_is_said_from_then_on(server: EmbeddedServer) -> None:
    async def about(follower: Follower, client: Client) -> list[str]:
        ears = Ears()
        say(client, "a", "before")
        await follower.follow("a", "chat", ears.take)
        say(client, "a", "one", "two")
        return await ears.until("two")

    assert follow(server, about) == ["one", "two"]


def test_many_who_follow_one_log_hear_it_over_one_reading(server: EmbeddedServer) -> None:
    async def about(follower: Follower, client: Client) -> None:
        everyone = [Ears() for _ in range(100)]
        for ears in everyone:
            await follower.follow("a", "chat", ears.take)
        say(client, "a", *map(str, range(50)))
        heard = [await ears.until("49") for ears in everyone]
        assert heard == [[str(number) for number in range(50)]] * 100
        assert len(client.redis.client_list()) == 3

    follow(server, about)


def test_another_log_is_heard_at_once_though_the_reading_waits_at_the_server(
    server: EmbeddedServer,
) -> None:
    async def about(follower: Follower, client: Client) -> float:
        first, second, loop = Ears(), Ears(), asyncio.get_running_loop()
        await follower.follow("a", "chat", first.take)
        await asyncio.sleep(0.1)
        began = loop.time()
        await follower.follow("b", "chat", second.take)
        say(client, "b", "hello")
        await second.until("hello")
        assert first.heard == []
        return loop.time() - began

    assert follow(server, about) < 0.5  # a reading waits for a second


def test_a_log_at_whose_key_another_value_was_put_stops_no_other_and_is_heard_again_when_that_is_gone(
    server: EmbeddedServer,
) -> None:
    async def about(follower: Follower, client: Client) -> list[list[str]]:
        sound, odd = Ears(), Ears()
        await follower.follow("a", "chat", sound.take)
        await follower.follow("b", "chat", odd.take)
        client.redis.set(swarm_of("b", "chat"), "no log")
        say(client, "a", "one")
        await sound.until("one")
        client.redis.delete(swarm_of("b", "chat"))
        await asyncio.sleep(0)
        say(client, "b", "again")
        return [sound.heard, await odd.until("again")]

    assert follow(server, about) == [["one"], ["again"]]


def test_who_leaves_hears_no_more_and_the_others_do(server: EmbeddedServer) -> None:
    async def about(follower: Follower, client: Client) -> list[list[str]]:
        one, other = Ears(), Ears()
        leave = await follower.follow("a", "chat", one.take)
        await follower.follow("a", "chat", other.take)
        say(client, "a", "one")
        await one.until("one")
        leave()
        leave()
        say(client, "a", "two")
        await other.until("two")
        return [one.heard, other.heard]

    assert follow(server, about) == [["one"], ["one", "two"]]


def test_who_comes_as_the_last_one_leaves_hears_nothing_old_and_nothing_twice(
    server: EmbeddedServer,
) -> None:
    async def about(follower: Follower, client: Client) -> None:
        for turn in range(100):
            first, second = Ears(), Ears()
            leave = await follower.follow("a", "chat", first.take)
            say(client, "a", f"{turn} old")  # may be on its way when the first one has left
            leave()
            leave = await follower.follow("a", "chat", second.take)
            say(client, "a", f"{turn} new")
            assert await second.until(f"{turn} new") == [f"{turn} new"]
            leave()

    follow(server, about)


def test_more_than_one_reading_holds_comes_in_order(server: EmbeddedServer) -> None:
    async def about(follower: Follower, client: Client) -> list[str]:
        ears = Ears()
        await follower.follow("a", "chat", ears.take)
        with client.redis.pipeline(transaction=True) as pipe:
            for number in range(2000):
                pipe.xadd(
                    swarm_of("a", "chat"),
                    {"mid": str(number), "data": "{}"} if number % 7 else {"note": "foreign"},
                )
            pipe.execute()
        return await ears.until("1999")

    assert follow(server, about) == [str(number) for number in range(2000) if number % 7]


def test_a_server_that_dies_makes_no_gap_and_nothing_comes_twice(server: EmbeddedServer) -> None:
    async def about(follower: Follower, client: Client) -> list[str]:
        ears = Ears()
        await follower.follow("a", "chat", ears.take)
        for turn in range(3):
            say(client, "a", *[f"{turn}-{number}" for number in range(10)])
            assert server.pid is not None
            os.kill(server.pid, signal.SIGKILL)
            os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOWAIT)
            client.redis.connection_pool.disconnect()
            server.start()
            say(client, "a", f"{turn}-last")
        return await ears.until("2-last")

    assert follow(server, about) == [
        f"{turn}-{number}" for turn in range(3) for number in [*range(10), "last"]
    ]


def test_without_a_server_nobody_follows(server: EmbeddedServer) -> None:
    server.stop()

    async def about(follower: Follower, _: Client) -> None:
        with pytest.raises(BusUnavailable):
            await follower.follow("a", "chat", Ears().take)

    follow(server, about)
