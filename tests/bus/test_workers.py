"""Reports of live workers, and the server's clock between two readings."""

import asyncio
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.client.url import Address
from memrelay.bus.embedded.launcher import EmbeddedServer
from memrelay.bus.keys import worker_key, workers_key
from memrelay.bus.lease.lease import FORGET_MS, Lease
from memrelay.bus.lease.workers import (
    SILENT_MS,
    BusClock,
    read_server_time,
    read_workers,
    wait_until_served,
)
from tests.support.client import Client
from tests.support.connections import run_on_connection
from tests.support.server import running_server

LEASE_MS = 30_000
HOUR_MS = 3_600_000


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    with running_server(tmp_path_factory.mktemp("bus")) as server:
        yield server


def report(name: str, **keys: Any) -> dict[str, Any]:
    return {"name": name, "pipelines": {}, "lease": f"{name}/1"} | keys


def register(server: EmbeddedServer, *names: str, **keys: Any) -> None:
    """Register these workers, with a first heartbeat."""

    async def act(client: ReconnectingConnection) -> None:
        for name in names:
            await Lease(client, f"{name}/1", LEASE_MS).register((), report(name, **keys))

    run_on_connection(server, act)


def list_reports(server: EmbeddedServer) -> list[dict[str, Any]]:
    """Return the reports without their age."""
    reports: list[dict[str, Any]] = run_on_connection(server, read_workers)
    for one in reports:
        del one["silent_s"]
    return reports


def test_no_worker_is_listed_at_first(server: EmbeddedServer) -> None:
    assert list_reports(server) == []


def test_workers_are_listed_by_name_with_their_last_report(server: EmbeddedServer) -> None:
    register(server, "b", "a", done=1)
    register(server, "b", done=2)

    assert list_reports(server) == [report("a", done=1), report("b", done=2)]


def test_an_unregistered_worker_is_not_listed(server: EmbeddedServer) -> None:
    register(server, "a", "b")

    run_on_connection(server, lambda client: Lease(client, "a/1", LEASE_MS).unregister())

    assert list_reports(server) == [report("b")]


def test_a_worker_without_recent_heartbeats_is_not_listed(server: EmbeddedServer) -> None:
    register(server, "a", "b", "c")

    with Client(server.socket_path) as client:
        assert 0 < client.redis.pttl(worker_key("a/1")) <= LEASE_MS
        client.redis.pexpire(worker_key("a/1"), 1)
        client.redis.zincrby(workers_key(), -SILENT_MS - 2000, "c/1")
        time.sleep(0.01)

    assert list_reports(server) == [report("b")]


def test_a_report_has_the_age_of_its_heartbeat(server: EmbeddedServer) -> None:
    register(server, "a", "b")

    with Client(server.socket_path) as client:
        client.redis.zincrby(workers_key(), -5000, "a/1")
    silent, recent = run_on_connection(server, read_workers)

    assert 4 <= silent["silent_s"] < 8
    assert recent["silent_s"] < 4


def test_names_of_long_dead_workers_are_deleted(server: EmbeddedServer) -> None:
    register(server, "old")
    with Client(server.socket_path) as client:
        client.redis.zincrby(workers_key(), -FORGET_MS - 1, "old/1")

        register(server, "new")

        assert client.redis.zrange(workers_key(), 0, -1) == [b"new/1"]


@pytest.mark.parametrize(
    ("pipelines", "served"),
    [
        ({"p": {"hash": "h2"}}, True),
        ({"p": {"hash": "h1"}}, False),
        ({"p": {}}, False),
        ({"q": {"hash": "h2"}}, False),
    ],
)
def test_waiting_for_a_version_returns_whether_a_worker_serves_it(
    server: EmbeddedServer, pipelines: dict[str, Any], served: bool
) -> None:
    register(server, "a")
    register(server, "b", pipelines=pipelines)

    assert (
        run_on_connection(server, lambda client: wait_until_served(client, "p", "h2", 0.2))
        is served
    )


def test_waiting_for_a_version_ends_at_once_without_workers(server: EmbeddedServer) -> None:
    began = time.monotonic()

    assert (
        run_on_connection(server, lambda client: wait_until_served(client, "p", "h2", 30)) is False
    )
    assert time.monotonic() - began < 25


class Seconds:
    """A monotonic clock that the test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_clock_carries_on_from_a_reading() -> None:
    seconds = Seconds()
    clock = BusClock(seconds)

    clock.adjust(5 * HOUR_MS, seconds.now * 1000)
    seconds.now += 2

    assert clock.now_ms == 5 * HOUR_MS + 2000


def test_a_late_reading_changes_nothing_that_fits_it() -> None:
    seconds = Seconds()
    clock = BusClock(seconds)
    clock.adjust(HOUR_MS, seconds.now * 1000)

    seconds.now += 5
    clock.adjust(HOUR_MS + 1000, seconds.now * 1000 - 5000)  # read by the server 4 s ago

    assert clock.now_ms == HOUR_MS + 5000


@pytest.mark.parametrize("set_by_ms", [HOUR_MS, -HOUR_MS])
def test_the_clock_follows_a_server_whose_clock_is_set(set_by_ms: int) -> None:
    seconds = Seconds()
    clock = BusClock(seconds)
    clock.adjust(2 * HOUR_MS, seconds.now * 1000)

    clock.adjust(2 * HOUR_MS + set_by_ms, seconds.now * 1000)

    assert abs(clock.now_ms - 2 * HOUR_MS - set_by_ms) <= 1


def test_the_clock_reads_the_time_of_the_server(server: EmbeddedServer) -> None:
    async def read() -> int:
        clock = BusClock()
        async with ReconnectingConnection(Address(path=str(server.socket_path))) as client:
            await clock.look(partial(read_server_time, client))
        return clock.now_ms

    assert abs(asyncio.run(read()) - time.time() * 1000) < 1000
