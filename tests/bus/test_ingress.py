"""Appends to inputs: those of one tick share a write, and each caller gets its own result."""

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


def run(path: Path, act: Callable[[Ingress], Awaitable[Any]], **options: Any) -> Any:
    """Return the result of `act` with an ingress."""

    async def run_act() -> Any:
        async with Ingress(Address(path=str(path)), **options) as ingress:
            return await act(ingress)

    return asyncio.run(run_act())


def entries(uid: str, count: int) -> list[NewEntry]:
    return [NewEntry(uid, f"{number}".encode(), "chat") for number in range(count)]


def test_an_entry_is_appended_when_its_id_is_returned(
    server: EmbeddedServer, client: Client
) -> None:
    ident = run(server.socket_path, lambda ingress: ingress.append(NewEntry("one", b"{}", "chat")))

    assert client.redis.xrange(input_of("one")) == [
        (ident.encode(), {b"swarm": b"chat", b"data": b"{}"})
    ]


def test_concurrent_entries_are_appended_in_order_and_get_their_ids(
    server: EmbeddedServer, client: Client
) -> None:
    async def act(ingress: Ingress) -> list[str]:
        return await asyncio.gather(*[ingress.append(entry) for entry in entries("many", 3000)])

    idents = run(server.socket_path, act)

    appended = client.redis.xrange(input_of("many"))
    assert [(ident.decode(), fields[b"data"]) for ident, fields in appended] == [
        (ident, f"{number}".encode()) for number, ident in enumerate(idents)
    ]


def test_entries_of_one_tick_share_a_write(server: EmbeddedServer, client: Client) -> None:
    async def act(ingress: Ingress) -> None:
        await ingress.append(NewEntry("tick", b"the connection is open now", "chat"))
        before = client.redis.info("stats")["total_reads_processed"]
        await asyncio.gather(*[ingress.append(entry) for entry in entries("tick", 100)])
        assert client.redis.info("stats")["total_reads_processed"] - before < 5

    run(server.socket_path, act)

    assert client.redis.xlen(input_of("tick")) == 101


def test_entries_above_the_limit_are_refused_and_not_appended(
    server: EmbeddedServer, client: Client
) -> None:
    async def act(ingress: Ingress) -> list[str | BaseException]:
        return await asyncio.gather(
            *[ingress.append(entry) for entry in entries("busy", 15)], return_exceptions=True
        )

    results = run(server.socket_path, act, limits=IngressLimits(waiting=10))

    assert [type(result) for result in results] == [str] * 10 + [BusBusy] * 5
    assert client.redis.xlen(input_of("busy")) == 10


def test_entries_are_accepted_again_below_the_limit(server: EmbeddedServer) -> None:
    async def act(ingress: Ingress) -> str:
        await asyncio.gather(*[ingress.append(entry) for entry in entries("rush", 10)])
        return await ingress.append(NewEntry("rush", b"one more", "chat"))

    assert run(server.socket_path, act, limits=IngressLimits(waiting=10))


def test_a_refusal_affects_only_its_caller(server: EmbeddedServer, client: Client) -> None:
    client.redis.set(input_of("broken"), "no stream")

    async def act(ingress: Ingress) -> list[str | BaseException]:
        mixed = [NewEntry(uid, b"{}", "chat") for uid in ("fine", "broken", "fine")]
        return await asyncio.gather(*map(ingress.append, mixed), return_exceptions=True)

    results = run(server.socket_path, act)

    assert [type(result) for result in results] == [str, BusRefused, str]
    assert client.redis.xlen(input_of("fine")) == 2


def test_a_cancelled_append_affects_no_other(server: EmbeddedServer, client: Client) -> None:
    async def act(ingress: Ingress) -> None:
        tasks = [asyncio.ensure_future(ingress.append(entry)) for entry in entries("cancelled", 3)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        await asyncio.wait(tasks)
        assert [task.cancelled() for task in tasks] == [False, True, False]

    run(server.socket_path, act)

    assert client.redis.xlen(input_of("cancelled")) in (2, 3)


def test_without_a_server_all_appends_fail(tmp_path: Path) -> None:
    async def act(ingress: Ingress) -> list[str | BaseException]:
        return await asyncio.gather(
            *[ingress.append(entry) for entry in entries("a", 50)], return_exceptions=True
        )

    results = run(tmp_path / "nowhere.sock", act)

    assert {type(result) for result in results} == {BusUnavailable}


def test_appends_under_way_fail_with_a_killed_server_and_later_ones_reach_its_successor(
    tmp_path: Path,
) -> None:
    server = EmbeddedServer(tmp_path / "bus", with_password=False)
    server.start()

    async def act(ingress: Ingress) -> None:
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

    run(server.socket_path, act)

    server.stop()
