"""Replicas and Sentinel: where the primary is, and what the replicas have."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from memrelay.bus.client.connection import connect
from memrelay.bus.client.primary import count_answering
from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.client.url import Address, parse
from memrelay.bus.errors import BusUnavailable
from memrelay.bus.replication import Replication
from memrelay.bus.streams.entry import NewEntry
from memrelay.bus.streams.ingress import Ingress
from tests.support.replicated_bus import PASSWORD, BusServer, SentinelBus, ask_both, free_port
from tests.support.waiting import wait_for


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SentinelBus]:
    with SentinelBus(tmp_path_factory.mktemp("bus"), replicas=1) as bus:
        yield bus


async def append(address: Address) -> str:
    async with Ingress(address) as ingress:
        return await ingress.append(NewEntry("p1", b"{}", swarm="chat"))


def test_both_kinds_of_connections_reach_the_primary(bus: SentinelBus) -> None:
    assert asyncio.run(ask_both(parse(bus.url))) == [bus.primary.port] * 2


def test_an_unreachable_sentinel_delays_nothing(bus: SentinelBus) -> None:
    address = parse(bus.url)
    address = replace(address, sentinels=(("127.0.0.1", free_port()), *address.sentinels))

    assert asyncio.run(ask_both(address)) == [bus.primary.port] * 2
    assert asyncio.run(count_answering(address)) == 3


@pytest.mark.parametrize("service", ["another", "a%20b"])
def test_an_unknown_group_is_named_in_the_error(bus: SentinelBus, service: str) -> None:
    address = replace(parse(bus.url), service=service)

    with pytest.raises(BusUnavailable, match=f"no Sentinel knows a primary of '{service}'"):
        asyncio.run(connect(address))
    with pytest.raises(BusUnavailable, match=f"no Sentinel knows a primary of '{service}'"):
        asyncio.run(ask_both(address))


def test_a_message_is_accepted_once_enough_replicas_have_it(bus: SentinelBus) -> None:
    assert asyncio.run(append(replace(parse(bus.url), min_replicas=1)))


def test_a_message_that_too_few_replicas_have_is_refused(bus: SentinelBus) -> None:
    with pytest.raises(BusUnavailable, match=r"bus\.min_replicas.*1 of 2 replicas have it"):
        asyncio.run(append(replace(parse(bus.url), min_replicas=2)))


def test_what_the_replicas_have_is_known(bus: SentinelBus) -> None:
    async def look(address: Address) -> float:
        replication = Replication.of(address)
        async with ReconnectingConnection(address) as client:
            await replication.look(client)
        return replication.confirmed_s

    address, before_s = parse(bus.url), time.monotonic()

    assert before_s < asyncio.run(look(address)) < time.monotonic()
    assert asyncio.run(look(replace(address, min_replicas=2))) == float("-inf")
    alone = Address(host="127.0.0.1", port=bus.primary.port, password=PASSWORD)
    assert Replication.of(alone).confirmed_s == float("inf")


def test_a_replica_that_left_must_confirm_too(tmp_path: Path) -> None:
    """It may be the new primary, which the former one does not know yet."""
    servers = [start_server(tmp_path / "0")]
    login = "--masterauth", PASSWORD
    source = ("--replicaof", "127.0.0.1", str(servers[0].port))
    try:
        servers += [start_server(tmp_path / name, *login, *source) for name in ("1", "2")]
        address = Address(host="127.0.0.1", port=servers[0].port, password=PASSWORD, min_replicas=1)
        asyncio.run(look_without_a_replica(address, servers))
    finally:
        for server in servers:
            server.kill()


async def look_without_a_replica(address: Address, servers: list[BusServer]) -> None:
    replication = Replication.of(address)
    async with ReconnectingConnection(address) as client:
        with servers[0].client() as primary:
            wait_for(lambda: len(primary.role()[2]) == 2, "both replicas are connected")
        await replication.look(client)
        await replication.look(client)
        confirmed_s = replication.confirmed_s
        with servers[2].client() as promoted:
            promoted.replicaof("NO", "ONE")

        await replication.look(client)

        assert replication.confirmed_s == confirmed_s > float("-inf")


def start_server(folder: Path, *words: str) -> BusServer:
    port = free_port()
    place = ("--port", str(port), "--bind", "127.0.0.1", "--repl-diskless-sync-delay", "0")
    server = BusServer(folder, port, *place, "--requirepass", PASSWORD)
    server.start(*words)
    return server


def test_a_former_primary_is_not_used(bus: SentinelBus, tmp_path: Path) -> None:
    """A Sentinel that is behind names a server that is a replica now."""
    (replica,) = [one for one in bus.servers if one.port != bus.primary.port]
    stale = bus.start_sentinel("stale", replica.port)
    address = replace(parse(bus.url), sentinels=(("127.0.0.1", stale.port),))

    with pytest.raises(BusUnavailable):
        asyncio.run(connect(address))
    with pytest.raises(BusUnavailable):
        asyncio.run(ask_both(address))
