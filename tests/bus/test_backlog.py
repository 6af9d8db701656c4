"""The backlog of an input limits appends to it, without additional round trips."""

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


async def append_all(ingress: Ingress, new_entries: list[NewEntry]) -> list[type]:
    """Return the type of each result: an ID or an exception."""
    return [
        type(one)
        for one in await asyncio.gather(*map(ingress.append, new_entries), return_exceptions=True)
    ]


def test_entries_above_the_limit_are_refused(server: EmbeddedServer, client: Client) -> None:
    found = run(
        server.socket_path, lambda ingress: append_all(ingress, entries("full", 15)), limits=TEN
    )

    assert found == [str] * 10 + [BusBusy] * 5
    assert client.redis.xlen(input_of("full")) == 10


def test_entries_of_other_clients_count_after_the_first_answer_of_the_server(
    server: EmbeddedServer, client: Client
) -> None:
    client.enter_together("others", ["x"] * 50)

    async def act(ingress: Ingress) -> list[type]:
        return [one for entry in entries("others", 3) for one in await append_all(ingress, [entry])]

    # The ingress knows nothing before the first entry.
    assert run(server.socket_path, act, limits=TEN) == [str, BusBusy, BusBusy]


def test_a_refusal_names_the_limit_and_the_remedy(server: EmbeddedServer, client: Client) -> None:
    async def act(ingress: Ingress) -> None:
        await append_all(ingress, entries("stuck", 10))
        await ingress.append(NewEntry("stuck", b"{}", "chat"))

    with pytest.raises(
        BusBusy,
        match=r"10 messages wait for the worker of .* stuck, and bus\.max_backlog allows 10; retry",
    ):
        run(server.socket_path, act, limits=TEN)


def test_entries_are_accepted_again_when_the_input_is_processed(
    server: EmbeddedServer, client: Client
) -> None:
    async def act(ingress: Ingress) -> list[type]:
        before = await append_all(ingress, entries("drained", 11))
        client.redis.delete(input_of("drained"))
        await asyncio.sleep(FRESH_S * 1.5)
        return [before[-1], *await append_all(ingress, entries("drained", 5))]

    assert run(server.socket_path, act, limits=TEN) == [BusBusy, *[str] * 5]


def test_a_full_pipeline_does_not_affect_another(server: EmbeddedServer, client: Client) -> None:
    async def act(ingress: Ingress) -> list[type]:
        await append_all(ingress, entries("mine", 11))
        return await append_all(ingress, entries("yours", 10))

    assert run(server.socket_path, act, limits=TEN) == [str] * 10


def test_the_backlog_is_limited_in_bytes_too(server: EmbeddedServer, client: Client) -> None:
    big = [NewEntry("big", make_envelope("x" * 100_000), "chat") for _ in range(20)]

    found = run(
        server.socket_path,
        lambda ingress: append_all(ingress, big),
        limits=IngressLimits(backlog_bytes=1_000_000),
    )

    assert found == [str] * 10 + [BusBusy] * 10


def test_entries_that_wait_for_the_server_are_limited_in_bytes_too(
    server: EmbeddedServer, client: Client
) -> None:
    big = [NewEntry("long", make_envelope("x" * 100_000), "chat") for _ in range(20)]

    found = run(
        server.socket_path,
        lambda ingress: append_all(ingress, big),
        limits=IngressLimits(waiting_bytes=1_000_000),
    )

    assert found == [str] * 10 + [BusBusy] * 10


def test_the_server_is_asked_at_most_once_per_interval(
    server: EmbeddedServer, client: Client
) -> None:
    async def act(ingress: Ingress) -> None:
        for entry in entries("seldom", 300):
            await ingress.append(entry)

    before, began = count_lookups(client), time.monotonic()
    run(server.socket_path, act)
    # 300 appends take longer on a loaded machine.
    most = (time.monotonic() - began) / FRESH_S + 2

    assert 1 <= count_lookups(client) - before <= most


def count_lookups(client: Client) -> int:
    """Return how often the length of an input was read."""
    return int(client.redis.info("commandstats").get("cmdstat_xlen", {}).get("calls", 0))
