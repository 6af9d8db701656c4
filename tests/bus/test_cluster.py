"""A cluster as the bus: where the primary of the keys is, and what its errors lead to."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from redis.crc import key_slot

from memrelay.bus import keys
from memrelay.bus.client.connection import connect
from memrelay.bus.client.primary import count_answering
from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.client.url import Address, parse
from memrelay.bus.errors import BadAddress, BusUnavailable
from memrelay.bus.lease.workers import fix_cells
from tests.support.replicated_bus import ClusterBus, ask_both, free_port
from tests.support.waiting import wait_for


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterBus]:
    with ClusterBus(tmp_path_factory.mktemp("bus")) as bus:
        yield bus


@pytest.fixture
def in_cell() -> Iterator[None]:
    keys.use_cells(1)
    yield
    keys.use_cells(0)


def all_keys() -> list[str]:
    uids = ("p1", "p2")
    of_pipelines = (keys.input_key, keys.timers_key, keys.stores_key, keys.owner_key)
    of_workers = (keys.worker_key, keys.fence_key)
    cell = keys.all_cells()[0]
    return [
        *(key(uid) for uid in uids for key in of_pipelines),
        *(keys.swarm_key(uid, "chat") for uid in (*uids, keys.PUBLIC)),
        *(key("w/1") for key in of_workers),
        *(keys.workers_key(cell), keys.listeners_key(), keys.reindex_key(cell)),
        keys.probe_key("a", cell),
    ]


def test_all_keys_of_a_cluster_are_in_one_slot(in_cell: None) -> None:
    slots = {key_slot(key.encode()) for key in all_keys()}

    assert slots == {key_slot(b"{c00}")}
    assert len(set(all_keys())) == len(all_keys())


def test_several_cells_have_one_slot_each(in_cell: None) -> None:
    keys.use_cells(4)
    uids = [f"p{number}" for number in range(100)]

    slots = {keys.find_cell(uid): key_slot(keys.input_key(uid).encode()) for uid in uids}

    assert sorted(slots) == keys.all_cells() == ["c00", "c01", "c02", "c03"]
    assert all(slots[cell] == key_slot(f"{{{cell}}}".encode()) for cell in slots)
    assert keys.fence_key("host:1:ab@c02/7") == "memrelay:{c02}workers:host:1:ab@c02/7:fence"


def test_one_client_reaches_all_cells(bus: ClusterBus, in_cell: None) -> None:
    keys.use_cells(16)
    uids = [f"p{number}" for number in range(40)]

    async def run() -> list[Any]:
        async with ReconnectingConnection(parse(bus.url)) as client:
            await client.call_all([("SET", keys.stores_key(uid), uid) for uid in uids])
            one = await client.call("GET", keys.stores_key("p7"))
            words = [("GET", keys.stores_key(uid)) for uid in uids]
            return [one, *await client.call_all([*words, ("PING",)])]

    assert asyncio.run(run()) == [b"p7", *(uid.encode() for uid in uids), b"PONG"]


def test_the_number_of_cells_is_fixed_at_the_first_use(bus: ClusterBus, in_cell: None) -> None:
    async def run(count: int) -> None:
        keys.use_cells(count)
        async with ReconnectingConnection(parse(bus.url)) as client:
            await fix_cells(client)

    asyncio.run(run(2))
    asyncio.run(run(2))
    with pytest.raises(BadAddress, match=r"set bus\.cells to 2"):
        asyncio.run(run(3))


def test_the_keys_of_a_single_server_keep_their_names() -> None:
    assert keys.input_key("p1") == "pipeline:{p1}:in"
    assert [keys.workers_key(), keys.listeners_key(), keys.reindex_key()] == [
        "memrelay:{workers}",
        "listeners:{public}",
        "memrelay:remake",
    ]


def test_both_kinds_of_connections_reach_the_primary_of_the_keys(bus: ClusterBus) -> None:
    address = parse(bus.url)
    dead = replace(address, nodes=(("127.0.0.1", free_port()), *address.nodes))

    assert asyncio.run(ask_both(dead)) == [bus.owner.port] * 2
    assert asyncio.run(count_answering(dead)) == 6


def test_open_connections_follow_keys_that_move(bus: ClusterBus, in_cell: None) -> None:
    async def run() -> None:
        address = parse(bus.url)
        async with ReconnectingConnection(address) as control:
            data = await connect(address)
            await control.call("SET", keys.probe_key("a", "c00"), 1)
            await asyncio.to_thread(bus.move_keys)

            with pytest.raises(BusUnavailable):
                await control.call("GET", keys.probe_key("a", "c00"))
            data.send(b"*2\r\n$3\r\nGET\r\n$27\r\nmemrelay:{c00}probe:missing\r\n")
            await asyncio.wait_for(data.closed, 10)
            assert await control.call("GET", keys.probe_key("a", "c00")) == b"1"

    asyncio.run(run())
    wait_for(bus.is_whole, "the cluster is whole")


def test_a_cluster_that_does_not_answer_is_unavailable() -> None:
    address = Address(nodes=(("127.0.0.1", free_port()),))

    with pytest.raises(BusUnavailable, match="no node of the cluster"):
        asyncio.run(connect(address))


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("cluster://a:1,b", "cluster://a:1,b:6379"),
        ("rediss+cluster://ann:x%40y@[::1]:7/0", "rediss+cluster://[::1]:7"),
    ],
)
def test_addresses_of_clusters_are_parsed(url: str, shown: str) -> None:
    assert str(parse(url)) == shown
    assert parse(parse(url).make_url()) == parse(url)


@pytest.mark.parametrize("url", ["cluster://", "cluster://a/1", "cluster://a?x"])
def test_wrong_addresses_of_clusters_are_explained(url: str) -> None:
    with pytest.raises(BadAddress, match=r"bus\.url must"):
        parse(url)
