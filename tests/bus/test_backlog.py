"""What waits in an input bounds what is appended to it, at no round trip of its own, and only for
as long as it waits."""

import asyncio
import time
from collections.abc import Iterator

import pytest

from memrelay.bus.embedded.launcher import EmbeddedServer
from memrelay.bus.errors import BusBusy
from memrelay.bus.streams.entry import NewEntry
from memrelay.bus.streams.ingress import FRESH_S, Ingress, IngressLimits
from tests.bus.test_ingress import entries, run
from tests.support.client import Client, input_of, make_envelope

TEN = IngressLimits(backlog=10)


@pytest.fixture
def client(server: EmbeddedServer) -> Iterator[Client]:
    with Client(server.socket_path) as client:
        yield client


async def append_all(ingress: Ingress, given: list[NewEntry]) -> list[type]:
    """What became of each: its id, or a fault."""
    return [
        type(one)
        for one in await asyncio.gather(*map(ingress.append, given), return_exceptions=True)
    ]


def test_no_more_is_appended_than_may_wait(server: EmbeddedServer, client: Client) -> None:
    found = run(
        server.socket_path, lambda ingress: append_all(ingress, entries("full", 15)), limits=TEN
    )

    assert found == [str] * 10 + [BusBusy] * 5
    assert client.redis.xlen(input_of("full")) == 10


def test_what_others_have_appended_counts_as_soon_as_the_server_has_told(
    server: EmbeddedServer, client: Client
) -> None:
    client.enter_together("others", ["x"] * 50)

    async def about(ingress: Ingress) -> list[type]:
        return [one for entry in entries("others", 3) for one in await append_all(ingress, [entry])]

    assert run(server.socket_path, about, limits=TEN) == [
        str,
        BusBusy,
        BusBusy,
    ]  # it did not know before the first


def test_the_refusal_names_the_rule_and_the_remedy(server: EmbeddedServer, client: Client) -> None:
    async def about(ingress: Ingress) -> None:
        await append_all(ingress, entries("told", 10))
        await ingress.append(NewEntry("told", b"{}", "chat"))

    with pytest.raises(
        BusBusy,
        match=r"10 messages wait for the worker of .* told, and bus\.max_backlog allows 10; come",
    ):
        run(server.socket_path, about, limits=TEN)


def test_as_soon_as_the_input_is_worked_off_there_is_room(
    server: EmbeddedServer, client: Client
) -> None:
    async def about(ingress: Ingress) -> list[type]:
        before = await append_all(ingress, entries("drained", 11))
        client.redis.delete(input_of("drained"))
        await asyncio.sleep(FRESH_S * 1.5)
        return [before[-1], *await append_all(ingress, entries("drained", 5))]

    assert run(server.socket_path, about, limits=TEN) == [BusBusy, *[str] * 5]


def test_one_full_pipeline_is_no_other_ones_matter(server: EmbeddedServer, client: Client) -> None:
    async def about(ingress: Ingress) -> list[type]:
        await append_all(ingress, entries("mine", 11))
        return await append_all(ingress, entries("yours", 10))

    assert run(server.socket_path, about, limits=TEN) == [str] * 10


def test_what_waits_is_bounded_in_bytes_too(server: EmbeddedServer, client: Client) -> None:
    big = [NewEntry("big", make_envelope("x" * 100_000), "chat") for _ in range(20)]

    found = run(
        server.socket_path,
        lambda ingress: append_all(ingress, big),
        limits=IngressLimits(backlog_bytes=1_000_000),
    )

    assert found == [str] * 10 + [BusBusy] * 10


def test_what_waits_for_the_server_is_bounded_in_bytes_too(
    server: EmbeddedServer, client: Client
) -> None:
    big = [NewEntry("long", make_envelope("x" * 100_000), "chat") for _ in range(20)]

    found = run(
        server.socket_path,
        lambda ingress: append_all(ingress, big),
        limits=IngressLimits(waiting_bytes=1_000_000),
    )

    assert found == [str] * 10 + [BusBusy] * 10


def test_the_server_is_asked_seldom_and_in_the_write_of_an_append(
    server: EmbeddedServer, client: Client
) -> None:
    async def about(ingress: Ingress) -> None:
        for entry in entries("seldom", 300):
            await ingress.append(entry)

    before, began = calls(client), time.monotonic()
    run(server.socket_path, about)
    most = (
        time.monotonic() - began
    ) / FRESH_S + 2  # of 300 appends, which take longer on a loaded machine

    assert 1 <= calls(client) - before <= most


def calls(client: Client) -> int:
    """How often a length was asked for."""
    return int(client.redis.info("commandstats").get("cmdstat_xlen", {}).get("calls", 0))
