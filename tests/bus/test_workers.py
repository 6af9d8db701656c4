"""The roll of workers: who lives tells what it serves, and who has been silent for long is gone."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.embedded.launcher import EmbeddedServer
from memrelay.bus.keys import ROLL, worker_key
from memrelay.bus.lease.lease import FORGET_MS, Lease
from memrelay.bus.lease.workers import SILENT_MS, read_workers, wait_until_served
from tests.support.client import Client
from tests.support.lines import on_a_line
from tests.support.server import running_server

LEASE_MS = 30_000


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    with running_server(tmp_path_factory.mktemp("bus")) as server:
        yield server


def report(name: str, **keys: Any) -> dict[str, Any]:
    return {"name": name, "pipelines": {}, "lease": f"{name}/1"} | keys


def call(server: EmbeddedServer, *names: str, **keys: Any) -> None:
    """These workers say that they live."""

    async def about(line: ReconnectingConnection) -> None:
        for name in names:
            await Lease(await line.open(), f"{name}/1", LEASE_MS).sign_on((), report(name, **keys))

    on_a_line(server, about)


def roll(server: EmbeddedServer) -> list[dict[str, Any]]:
    return [
        {name: told for name, told in report.items() if name != "silent_s"}
        for report in on_a_line(server, read_workers)
    ]


def test_nobody_is_on_the_roll_at_first(server: EmbeddedServer) -> None:
    assert roll(server) == []


def test_who_calls_in_is_there_by_name_with_what_it_said_last(server: EmbeddedServer) -> None:
    call(server, "b", "a", done=1)
    call(server, "b", done=2)

    assert roll(server) == [report("a", done=1), report("b", done=2)]


def test_who_signs_off_is_gone_at_once(server: EmbeddedServer) -> None:
    call(server, "a", "b")

    async def about(line: ReconnectingConnection) -> None:
        await Lease(await line.open(), "a/1", LEASE_MS).sign_off()

    on_a_line(server, about)
    assert roll(server) == [report("b")]


def test_who_was_silent_for_long_is_gone(server: EmbeddedServer) -> None:
    call(server, "a", "b", "c")

    with Client(server.socket_path) as client:
        assert 0 < client.redis.pttl(worker_key("a/1")) <= LEASE_MS
        client.redis.pexpire(worker_key("a/1"), 1)
        client.redis.zincrby(ROLL, -SILENT_MS - 2000, "c/1")
        time.sleep(0.01)

    assert roll(server) == [report("b")]


def test_who_has_not_called_in_for_a_while_is_there_as_silent(server: EmbeddedServer) -> None:
    call(server, "a", "b")

    with Client(server.socket_path) as client:
        client.redis.zincrby(ROLL, -5000, "a/1")
    silent, heard = on_a_line(server, read_workers)

    assert 4 <= silent["silent_s"] < 8
    assert heard["silent_s"] < 4


def test_names_of_the_long_dead_are_swept_out(server: EmbeddedServer) -> None:
    call(server, "old")
    with Client(server.socket_path) as client:
        client.redis.zincrby(ROLL, -FORGET_MS - 1, "old/1")

        call(server, "new")

        assert client.redis.zrange(ROLL, 0, -1) == [b"new/1"]


@pytest.mark.parametrize(
    ("pipelines", "served"),
    [
        ({"p": {"hash": "h2"}}, True),
        ({"p": {"hash": "h1"}}, False),
        ({"p": {}}, False),
        ({"q": {"hash": "h2"}}, False),
    ],
)
def test_who_waits_for_a_version_learns_whether_anybody_serves_it(
    server: EmbeddedServer, pipelines: dict[str, Any], served: bool
) -> None:
    call(server, "a")
    call(server, "b", pipelines=pipelines)

    assert on_a_line(server, lambda line: wait_until_served(line, "p", "h2", 0.2)) is served


def test_where_no_worker_lives_nobody_is_waited_for(server: EmbeddedServer) -> None:
    began = time.monotonic()

    assert on_a_line(server, lambda line: wait_until_served(line, "p", "h2", 30)) is False
    assert time.monotonic() - began < 25
