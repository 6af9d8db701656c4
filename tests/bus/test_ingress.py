"""The way in: appends of one tick share a write, and whoever appends learns what became of it."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memrelay.bus.client.url import Address
from memrelay.bus.embedded.launcher import EmbeddedServer
from memrelay.bus.errors import BusBusy, BusRefused, BusUnavailable
from memrelay.bus.streams.entry import NewEntry
from memrelay.bus.streams.ingress import Ingress, IngressLimits
from tests.support.client import Client, input_of


@pytest.fixture
def client(server: EmbeddedServer) -> Iterator[Client]:
    with Client(server.socket_path) as client:
        yield client


def run(path: Path, about: Callable[[Ingress], Awaitable[Any]], **options: Any) -> Any:
    """What comes of something that is done with an ingress."""

    async def whole() -> Any:
        async with Ingress(Address(path=str(path)), **options) as ingress:
            return await about(ingress)

    return asyncio.run(whole())


def entries(uid: str, count: int) -> list[NewEntry]:
    return [NewEntry(uid, f"{number}".encode(), "chat") for number in range(count)]


def test_an_entry_is_there_when_its_id_is_returned(server: EmbeddedServer, client: Client) -> None:
    ident = run(server.socket_path, lambda ingress: ingress.append(NewEntry("one", b"{}", "chat")))

    assert client.redis.xrange(input_of("one")) == [
        (ident.encode(), {b"swarm": b"chat", b"data": b"{}"})
    ]


def test_many_at_once_are_appended_in_their_order_and_each_gets_its_own_id(
    server: EmbeddedServer, client: Client
) -> None:
    async def about(ingress: Ingress) -> list[str]:
        return await asyncio.gather(*[ingress.append(entry) for entry in entries("many", 3000)])

    idents = run(server.socket_path, about)

    there = client.redis.xrange(input_of("many"))
    assert [(ident.decode(), fields[b"data"]) for ident, fields in there] == [
        (ident, f"{number}".encode()) for number, ident in enumerate(idents)
    ]


def test_what_comes_in_one_tick_is_synced_once_or_twice_and_not_each_alone(
    server: EmbeddedServer, client: Client
) -> None:
    async def about(ingress: Ingress) -> None:
        await ingress.append(NewEntry("tick", b"the connection is open now", "chat"))
        before = client.redis.info("stats")["total_reads_processed"]
        await asyncio.gather(*[ingress.append(entry) for entry in entries("tick", 100)])
        assert client.redis.info("stats")["total_reads_processed"] - before < 5

    run(server.socket_path, about)

    assert client.redis.xlen(input_of("tick")) == 101


def test_past_the_limit_whoever_comes_is_turned_away_and_nothing_is_appended(
    server: EmbeddedServer, client: Client
) -> None:
    async def about(ingress: Ingress) -> list[str | BaseException]:
        return await asyncio.gather(
            *[ingress.append(entry) for entry in entries("busy", 15)], return_exceptions=True
        )

    results = run(server.socket_path, about, limits=IngressLimits(waiting=10))

    assert [type(result) for result in results] == [str] * 10 + [BusBusy] * 5
    assert client.redis.xlen(input_of("busy")) == 10


def test_when_the_rush_is_over_there_is_room_again(server: EmbeddedServer) -> None:
    async def about(ingress: Ingress) -> str:
        await asyncio.gather(*[ingress.append(entry) for entry in entries("rush", 10)])
        return await ingress.append(NewEntry("rush", b"one more", "chat"))

    assert run(server.socket_path, about, limits=IngressLimits(waiting=10))


def test_a_refusal_is_the_callers_alone(server: EmbeddedServer, client: Client) -> None:
    client.redis.set(input_of("broken"), "no stream")

    async def about(ingress: Ingress) -> list[str | BaseException]:
        mixed = [NewEntry(uid, b"{}", "chat") for uid in ("fine", "broken", "fine")]
        return await asyncio.gather(*map(ingress.append, mixed), return_exceptions=True)

    results = run(server.socket_path, about)

    assert [type(result) for result in results] == [str, BusRefused, str]
    assert client.redis.xlen(input_of("fine")) == 2


def test_one_who_gives_up_harms_nobody(server: EmbeddedServer, client: Client) -> None:
    async def about(ingress: Ingress) -> None:
        tasks = [asyncio.ensure_future(ingress.append(entry)) for entry in entries("given up", 3)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        await asyncio.wait(tasks)
        assert [task.cancelled() for task in tasks] == [False, True, False]

    run(server.socket_path, about)

    assert client.redis.xlen(input_of("given up")) in (2, 3)


def test_without_a_server_everybody_is_told(tmp_path: Path) -> None:
    async def about(ingress: Ingress) -> list[str | BaseException]:
        return await asyncio.gather(
            *[ingress.append(entry) for entry in entries("a", 50)], return_exceptions=True
        )

    results = run(tmp_path / "nowhere.sock", about)

    assert {type(result) for result in results} == {BusUnavailable}


def test_after_the_server_has_died_the_next_one_finds_the_new_server(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path / "bus")
    server.start()

    async def about(ingress: Ingress) -> None:
        await ingress.append(NewEntry("a", b"{}", "chat"))
        assert server.pid is not None
        os.kill(server.pid, signal.SIGSTOP)
        waiting = [asyncio.ensure_future(ingress.append(entry)) for entry in entries("a", 3)]
        await asyncio.sleep(0.05)
        os.kill(server.pid, signal.SIGKILL)
        os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOWAIT)
        await asyncio.wait(waiting)
        assert [type(task.exception()) for task in waiting] == [BusUnavailable] * 3
        server.start()
        assert await ingress.append(NewEntry("a", b"{}", "chat"))

    run(server.socket_path, about)

    server.stop()
