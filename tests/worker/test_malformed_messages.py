"""Malformed messages on any channel, stream or shared key are dropped, and everything goes on."""

import asyncio
from collections.abc import Iterator
from itertools import islice
from typing import Any

import orjson
import pytest

from memrelay.bus.client.url import Address
from memrelay.bus.keys import ask_channel, owner_key, worker_key, workers_key
from memrelay.bus.request import Requester
from memrelay.bus.streams.entry import NewEntry
from memrelay.bus.streams.follow import Follower
from memrelay.bus.streams.log import LogEntry
from tests.support.abuse import Footprint
from tests.support.bundles import make_agent, make_bundle, make_commands, make_uid
from tests.support.calls import call
from tests.support.client import input_of, make_envelope
from tests.support.house import House
from tests.support.malformed import Malformed
from tests.support.waiting import wait_for

PUBLIC_SWARM, SEED = "fuzzed", 24
TOGETHER = 500


@pytest.fixture
def flooded() -> Iterator[tuple[House, str]]:
    """A house with a worker, and the uid of a pipeline with all kinds of inputs."""
    with House() as house:
        house.start_worker()
        uid = make_uid()
        timer = make_agent("clock", "add_1", hears="nobody") | {"wf_interval_secs": 1}
        bundle = make_bundle(uid, *make_commands(), timer)
        house.deploy(bundle | {"swarms": [{"name": PUBLIC_SWARM, "visibility": "public"}]})
        yield house, uid


def flood(house: House, uid: str, count: int) -> None:
    """Send malformed messages, and wait until the input is worked off."""
    sends = Malformed(SEED, uid, PUBLIC_SWARM, "clock_").sends(count)
    while some := list(islice(sends, TOGETHER)):
        with house.client.redis.pipeline(transaction=False) as pipe:
            for send in some:
                send(pipe)
            pipe.execute()
        house.client.await_quiet(uid, 60)


def lease_of(house: House, uid: str) -> str:
    """Return the name of the lease of the pipeline's owner."""
    redis: Any = house.client.redis
    return str(redis.hget(owner_key(uid), "worker").decode())


def connections_of(house: House, uid: str) -> set[str]:
    """Return the IDs of the connections of the pipeline's owner."""
    lease, redis = lease_of(house, uid), house.client.redis
    return {one["id"] for one in redis.client_list() if one["name"] == lease}


def count_dropped(house: House, uid: str) -> int:
    """Return how many malformed messages the owner has reported."""
    redis: Any = house.client.redis
    return int(orjson.loads(redis.get(worker_key(lease_of(house, uid))))["malformed"])


def check_service(house: House, uid: str) -> None:
    """Assert that messages, calls and public messages are still processed."""
    house.client.await_done(uid, house.client.enter(uid, "/write tea"))
    assert "tea" in house.contents(uid)
    assert call(house, uid, "records.list")["total"] >= 1
    other = make_uid()
    house.deploy(make_bundle(other))
    assert "guid" in house.client.answer(other, "/write tea")
    wait_for(lambda: count_dropped(house, uid), "dropped messages are counted")
    assert house.workers[0].lives


def test_malformed_messages_close_no_connection(flooded: tuple[House, str]) -> None:
    house, uid = flooded
    before = connections_of(house, uid)

    flood(house, uid, 1500)

    check_service(house, uid)
    assert connections_of(house, uid) == before


@pytest.mark.slow
def test_a_hundred_thousand_malformed_messages_change_nothing(flooded: tuple[House, str]) -> None:
    house, uid = flooded
    before = connections_of(house, uid)
    flood(house, uid, 2000)
    footprint = Footprint(house.workers[0].pid)

    flood(house, uid, 100_000)

    check_service(house, uid)
    assert connections_of(house, uid) == before
    assert footprint.grown_mb < 64


def test_a_question_with_an_impossible_time_is_dropped(house: House) -> None:
    uid = make_uid()
    house.deploy(make_bundle(uid))
    before = connections_of(house, uid)

    question = b'{"op":"records.list","reply":"reply:{%s}:x","input":{},"within_ms":%d}'
    for within_ms in (10**400, -(10**400), -1, 0):
        house.client.redis.publish(ask_channel(uid), question % (uid.encode(), within_ms))

    assert call(house, uid, "records.list")["total"] == 0
    assert connections_of(house, uid) == before


def test_malformed_replies_affect_no_other_caller(house: House) -> None:
    served, unserved = make_uid(), make_uid()
    house.deploy(make_bundle(served))
    malformed = Malformed(SEED, served, PUBLIC_SWARM, "clock_")

    async def run() -> list[Any]:
        async with Requester(Address(path=str(house.client.socket))) as requester:
            entries = [NewEntry(uid, make_envelope("/read"), "chat") for uid in (unserved, served)]
            waiting = asyncio.create_task(requester.say(entries[0], 30))
            channel = await asyncio.to_thread(reply_of, house, unserved)
            for _ in range(200):
                house.client.redis.publish(channel, malformed.reply())
            answer = await requester.say(entries[1], 30)
            assert not waiting.done()
            await asyncio.to_thread(house.deploy, make_bundle(unserved))
            return [answer, await waiting]

    assert [len(report["results"]) for report in asyncio.run(run())] == [1, 1]


def reply_of(house: House, uid: str) -> bytes:
    """Wait for an entry in the input, and return its reply channel."""
    redis: Any = house.client.redis
    wait_for(lambda: redis.xlen(input_of(uid)), "the entry arrives")
    ((_, fields),) = redis.xrange(input_of(uid))
    return bytes(fields[b"reply"])


def test_a_follower_goes_on_behind_malformed_log_entries(house: House) -> None:
    uid = make_uid()
    house.deploy(make_bundle(uid))

    async def run() -> list[LogEntry]:
        found: list[LogEntry] = []
        async with Follower(Address(path=str(house.client.socket))) as follower:
            await follower.follow(uid, "chat", found.extend)
            for data in (b"{", b"[]", b"\xff", b'{"a":' * 3000):
                house.client.redis.xadd(f"swarm:{{{uid}}}:chat", {"mid": "a", "data": data})
            house.client.enter(uid, "/write tea")
            async with asyncio.timeout(10):
                while len(found) < 3:
                    await asyncio.sleep(0.02)
        return found

    assert [orjson.loads(entry.data)["from"] for entry in asyncio.run(run())] == [
        "User",
        "dispatch_write",
        "memory_write",
    ]


def test_a_malformed_worker_report_is_left_out() -> None:
    uid = make_uid()
    with House() as house:
        house.start_worker()
        redis = house.client.redis
        for number, report in enumerate(
            (b"{", b"[]", b'{"name":1}', b'{"name":"a","pipelines":[]}')
        ):
            redis.set(worker_key(f"{number}/1"), report)
            redis.zadd(workers_key(), {f"{number}/1": 1e13})

        house.deploy(make_bundle(uid))

        assert "guid" in house.client.answer(uid, "/write tea")
