"""A timer's tick: one entry in each interval, however many ask for it, and none on top of one that
is not done."""

import asyncio
from itertools import count

import pytest
import redis

from memrelay.bus.client.connection import connect
from memrelay.bus.client.url import Address
from memrelay.bus.embedded.launcher import EmbeddedServer
from memrelay.bus.errors import BusRefused
from memrelay.bus.keys import input_key, timers_key
from memrelay.bus.streams.timer import tick
from tests.support.client import Client

HOUR_MS = 3_600_000
uids = (f"timed{number}" for number in count())


def ask(
    server: EmbeddedServer, uid: str, *, interval_ms: int = HOUR_MS, times: int = 1
) -> list[int]:
    """What so many who ask at once are told is left of the interval, ms."""

    async def together() -> list[int]:
        connections = [await connect(Address(path=str(server.socket_path))) for _ in range(times)]
        try:
            return await asyncio.gather(
                *[tick(one, uid, "clock", interval_ms, b"tick") for one in connections]
            )
        finally:
            for one in connections:
                await one.close()

    return asyncio.run(together())


def entries(client: redis.Redis, uid: str) -> list[dict[bytes, bytes]]:
    return [fields for _, fields in client.xrange(input_key(uid))]


def set_last(client: redis.Redis, uid: str, by: int) -> None:
    """As if the last tick had been `by` intervals from now."""
    seconds, _ = client.time()
    number = seconds * 1000 // HOUR_MS + by
    _, _, entry = client.hget(timers_key(uid), "clock").split()
    client.hset(timers_key(uid), "clock", b"%d %d %s" % (HOUR_MS, number, entry))


def test_a_new_timer_begins_with_the_next_interval(server: EmbeddedServer) -> None:
    with Client(server.socket_path) as client:
        uid = next(uids)

        (left,) = ask(server, uid)

        assert 0 < left <= HOUR_MS
        assert entries(client.redis, uid) == []


def test_of_many_who_ask_in_one_interval_one_is_served(server: EmbeddedServer) -> None:
    with Client(server.socket_path) as client:
        uid = next(uids)
        ask(server, uid)
        set_last(client.redis, uid, -1)

        ask(server, uid, times=20)
        ask(server, uid)

        assert entries(client.redis, uid) == [{b"agent": b"clock", b"data": b"tick"}]


def test_an_interval_that_was_missed_is_not_made_up_for(server: EmbeddedServer) -> None:
    with Client(server.socket_path) as client:
        uid = next(uids)
        ask(server, uid)
        set_last(client.redis, uid, -1000)

        ask(server, uid, times=3)

        assert len(entries(client.redis, uid)) == 1


def test_there_is_no_tick_on_top_of_one_that_is_not_done(server: EmbeddedServer) -> None:
    with Client(server.socket_path) as client:
        uid = next(uids)
        ask(server, uid)
        for _ in range(3):
            set_last(client.redis, uid, -1)
            ask(server, uid)
        assert len(entries(client.redis, uid)) == 1

        client.redis.xtrim(input_key(uid), maxlen=0)
        set_last(client.redis, uid, -1)
        ask(server, uid)

        assert len(entries(client.redis, uid)) == 1


def test_another_interval_begins_anew(server: EmbeddedServer) -> None:
    with Client(server.socket_path) as client:
        uid = next(uids)
        ask(server, uid)
        set_last(client.redis, uid, -5)

        (left,) = ask(server, uid, interval_ms=1500)

        assert left <= 1500
        assert entries(client.redis, uid) == []


@pytest.mark.parametrize(("back_by", "expected"), [(1, 0), (24, 1)], ids=["a little", "a day"])
def test_a_server_whose_clock_is_set_back_ticks_no_interval_twice_and_does_not_stop(
    server: EmbeddedServer, back_by: int, expected: int
) -> None:
    with Client(server.socket_path) as client:
        uid = next(uids)
        ask(server, uid)
        set_last(client.redis, uid, back_by)

        ask(server, uid, times=3)

        assert len(entries(client.redis, uid)) == expected


def test_a_key_that_is_something_else_is_refused_and_nothing_is_appended(
    server: EmbeddedServer,
) -> None:
    with Client(server.socket_path) as client:
        uid = next(uids)
        client.redis.set(timers_key(uid), "mine")

        with pytest.raises(BusRefused):
            ask(server, uid)

        assert entries(client.redis, uid) == []
