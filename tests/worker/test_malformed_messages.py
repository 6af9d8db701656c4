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
from tests.support.malformed import Malformed
from tests.support.system import TestSystem
from tests.support.waiting import wait_for

PUBLIC_SWARM, SEED = "fuzzed", 24
TOGETHER = 500


@pytest.fixture
def flooded() -> Iterator[tuple[TestSystem, str]]:
    """A system with a worker, and the uid of a pipeline with all kinds of inputs."""
    with TestSystem() as system:
        system.start_worker()
        uid = make_uid()
        timer = make_agent("clock", "add_1", senders="nobody") | {"wf_interval_secs": 1}
        bundle = make_bundle(uid, *make_commands(), timer)
        system.deploy(bundle | {"swarms": [{"name": PUBLIC_SWARM, "visibility": "public"}]})
        yield system, uid


def flood(system: TestSystem, uid: str, count: int) -> None:
    """Send malformed messages, and wait until the input is worked off."""
    sends = Malformed(SEED, uid, PUBLIC_SWARM, "clock_").sends(count)
    while some := list(islice(sends, TOGETHER)):
        with system.client.redis.pipeline(transaction=False) as pipe:
            for send in some:
                send(pipe)
            pipe.execute()
        system.client.await_quiet(uid, 60)


def lease_of(system: TestSystem, uid: str) -> str:
    """Return the name of the lease of the pipeline's owner."""
    redis: Any = system.client.redis
    return str(redis.hget(owner_key(uid), "worker").decode())


def connections_of(system: TestSystem, uid: str) -> set[str]:
    """Return the IDs of the connections of the pipeline's owner."""
    lease, redis = lease_of(system, uid), system.client.redis
    return {one["id"] for one in redis.client_list() if one["name"] == lease}


def count_dropped(system: TestSystem, uid: str) -> int:
    """Return how many malformed messages the owner has reported."""
    redis: Any = system.client.redis
    return int(orjson.loads(redis.get(worker_key(lease_of(system, uid))))["malformed"])


def check_service(system: TestSystem, uid: str) -> None:
    """Assert that messages, calls and public messages are still processed."""
    system.client.await_done(uid, system.client.enter(uid, "/write tea"))
    assert "tea" in system.contents(uid)
    assert call(system, uid, "records.list")["total"] >= 1
    other = make_uid()
    system.deploy(make_bundle(other))
    assert "guid" in system.client.answer(other, "/write tea")
    wait_for(lambda: count_dropped(system, uid), "dropped messages are counted")
    assert system.workers[0].lives


def test_malformed_messages_close_no_connection(flooded: tuple[TestSystem, str]) -> None:
    system, uid = flooded
    before = connections_of(system, uid)

    flood(system, uid, 1500)

    check_service(system, uid)
    assert connections_of(system, uid) == before


@pytest.mark.slow
def test_a_hundred_thousand_malformed_messages_change_nothing(
    flooded: tuple[TestSystem, str],
) -> None:
    system, uid = flooded
    before = connections_of(system, uid)
    flood(system, uid, 2000)
    footprint = Footprint(system.workers[0].pid)

    flood(system, uid, 100_000)

    check_service(system, uid)
    assert connections_of(system, uid) == before
    assert footprint.grown_mb < 64


def test_a_question_with_an_impossible_time_is_dropped(system: TestSystem) -> None:
    uid = make_uid()
    system.deploy(make_bundle(uid))
    before = connections_of(system, uid)

    question = b'{"op":"records.list","reply":"reply:{%s}:x","input":{},"within_ms":%d}'
    for within_ms in (10**400, -(10**400), -1, 0):
        system.client.redis.publish(ask_channel(uid), question % (uid.encode(), within_ms))

    assert call(system, uid, "records.list")["total"] == 0
    assert connections_of(system, uid) == before


def test_malformed_replies_affect_no_other_caller(system: TestSystem) -> None:
    served, unserved = make_uid(), make_uid()
    system.deploy(make_bundle(served))
    malformed = Malformed(SEED, served, PUBLIC_SWARM, "clock_")

    async def run() -> list[Any]:
        async with Requester(Address(path=str(system.client.socket))) as requester:
            entries = [NewEntry(uid, make_envelope("/read"), "chat") for uid in (unserved, served)]
            waiting = asyncio.create_task(requester.say(entries[0], 30))
            channel = await asyncio.to_thread(reply_of, system, unserved)
            for _ in range(200):
                system.client.redis.publish(channel, malformed.reply())
            answer = await requester.say(entries[1], 30)
            assert not waiting.done()
            await asyncio.to_thread(system.deploy, make_bundle(unserved))
            return [answer, await waiting]

    assert [len(report["results"]) for report in asyncio.run(run())] == [1, 1]


def reply_of(system: TestSystem, uid: str) -> bytes:
    """Wait for an entry in the input, and return its reply channel."""
    redis: Any = system.client.redis
    wait_for(lambda: redis.xlen(input_of(uid)), "the entry arrives")
    ((_, fields),) = redis.xrange(input_of(uid))
    return bytes(fields[b"reply"])


def test_a_follower_goes_on_behind_malformed_log_entries(system: TestSystem) -> None:
    uid = make_uid()
    system.deploy(make_bundle(uid))

    async def run() -> list[LogEntry]:
        found: list[LogEntry] = []
        async with Follower(Address(path=str(system.client.socket))) as follower:
            await follower.follow(uid, "chat", found.extend)
            for data in (b"{", b"[]", b"\xff", b'{"a":' * 3000):
                system.client.redis.xadd(f"swarm:{{{uid}}}:chat", {"mid": "a", "data": data})
            system.client.enter(uid, "/write tea")
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
    with TestSystem() as system:
        system.start_worker()
        redis = system.client.redis
        for number, report in enumerate(
            (b"{", b"[]", b'{"name":1}', b'{"name":"a","pipelines":[]}')
        ):
            redis.set(worker_key(f"{number}/1"), report)
            redis.zadd(workers_key(), {f"{number}/1": 1e13})

        system.deploy(make_bundle(uid))

        assert "guid" in system.client.answer(uid, "/write tea")
