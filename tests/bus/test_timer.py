"""Timers: one entry per interval or slot, and none while the last one is not processed."""

import asyncio
from itertools import count

import pytest
import redis

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.client.url import Address
from memrelay.bus.embedded.launcher import EmbeddedServer
from memrelay.bus.errors import BusRefused
from memrelay.bus.keys import input_key, timers_key
from memrelay.bus.streams.input_stream import Slot, run_slot, tick
from tests.support.client import Client

HOUR_MS = 3_600_000
uids = (f"timed{number}" for number in count())


def ask(
    server: EmbeddedServer, uid: str, *, interval_ms: int = HOUR_MS, times: int = 1
) -> list[int]:
    """Ask for a tick several times concurrently, and return the ms left of the interval."""

    async def run() -> list[int]:
        async with ReconnectingConnection(Address(path=str(server.socket_path))) as client:
            return await asyncio.gather(
                *[tick(client, uid, "clock", interval_ms, b"tick") for _ in range(times)]
            )

    return asyncio.run(run())


def entries(client: redis.Redis, uid: str) -> list[dict[bytes, bytes]]:
    return [fields for _, fields in client.xrange(input_key(uid))]


def set_last(client: redis.Redis, uid: str, by: int) -> None:
    """Pretend that the last tick was `by` intervals from now."""
    seconds, _ = client.time()
    number = seconds * 1000 // HOUR_MS + by
    _, _, entry = client.hget(timers_key(uid), "clock").split()
    client.hset(timers_key(uid), "clock", b"%d %d %s" % (HOUR_MS, number, entry))


def test_a_new_timer_starts_with_the_next_interval(server: EmbeddedServer) -> None:
    with Client(server.socket_path) as client:
        uid = next(uids)

        (left,) = ask(server, uid)

        assert 0 < left <= HOUR_MS
        assert entries(client.redis, uid) == []


def test_one_entry_is_appended_per_interval(server: EmbeddedServer) -> None:
    with Client(server.socket_path) as client:
        uid = next(uids)
        ask(server, uid)
        set_last(client.redis, uid, -1)

        ask(server, uid, times=20)
        ask(server, uid)

        assert entries(client.redis, uid) == [{b"agent": b"clock", b"data": b"tick"}]


def test_missed_intervals_are_not_made_up_for(server: EmbeddedServer) -> None:
    with Client(server.socket_path) as client:
        uid = next(uids)
        ask(server, uid)
        set_last(client.redis, uid, -1000)

        ask(server, uid, times=3)

        assert len(entries(client.redis, uid)) == 1


def test_no_entry_is_appended_while_the_last_one_is_not_processed(server: EmbeddedServer) -> None:
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


def test_a_changed_interval_starts_over(server: EmbeddedServer) -> None:
    with Client(server.socket_path) as client:
        uid = next(uids)
        ask(server, uid)
        set_last(client.redis, uid, -5)

        (left,) = ask(server, uid, interval_ms=1500)

        assert left <= 1500
        assert entries(client.redis, uid) == []


@pytest.mark.parametrize(("back_by", "expected"), [(1, 0), (24, 1)], ids=["a little", "a day"])
def test_a_clock_that_is_set_back_repeats_no_tick_and_stops_no_timer(
    server: EmbeddedServer, back_by: int, expected: int
) -> None:
    with Client(server.socket_path) as client:
        uid = next(uids)
        ask(server, uid)
        set_last(client.redis, uid, back_by)

        ask(server, uid, times=3)

        assert len(entries(client.redis, uid)) == expected


def test_a_key_of_a_wrong_type_is_refused_and_nothing_is_appended(
    server: EmbeddedServer,
) -> None:
    with Client(server.socket_path) as client:
        uid = next(uids)
        client.redis.set(timers_key(uid), "mine")

        with pytest.raises(BusRefused):
            ask(server, uid)

        assert entries(client.redis, uid) == []


class Slots:
    """Requests slots of one agent. Times are in ms from now."""

    def __init__(self, server: EmbeddedServer, client: redis.Redis) -> None:
        self._server, self._redis, self.uid = server, client, next(uids)
        seconds, _ = client.time()
        self._now_ms = seconds * 1000

    def ask(
        self, at_ms: int, start_ms: int = 0, *, schedule: str = "daily", times: int = 1
    ) -> list[bool]:
        """Request a slot several times concurrently, and return whether it is served."""
        slot = Slot("clock", schedule, self._now_ms + at_ms, self._now_ms + start_ms)

        async def run() -> list[bool]:
            address = Address(path=str(self._server.socket_path))
            async with ReconnectingConnection(address) as client:
                asked = [run_slot(client, self.uid, slot, b"slot") for _ in range(times)]
                return await asyncio.gather(*asked)

        return asyncio.run(run())

    def take(self) -> int:
        """Process all entries, and return how many there were."""
        return int(self._redis.xtrim(input_key(self.uid), maxlen=0))


def test_one_entry_is_appended_per_slot(server: EmbeddedServer) -> None:
    with Client(server.socket_path) as client:
        slots = Slots(server, client.redis)

        assert slots.ask(-HOUR_MS) == [True] and slots.take() == 0  # a new schedule
        assert all(slots.ask(1, times=20)) and slots.take() == 1
        assert all(slots.ask(1, times=20)) and slots.take() == 0
        assert slots.ask(2) == [True] and slots.take() == 1
        assert slots.ask(1) == [True] and slots.take() == 0  # a slot before the last one


def test_a_slot_is_served_once_the_entry_before_it_is_processed(server: EmbeddedServer) -> None:
    with Client(server.socket_path) as client:
        slots = Slots(server, client.redis)
        slots.ask(0)
        slots.ask(1)

        assert slots.ask(2) == [False] and slots.take() == 1
        assert slots.ask(2) == [True] and slots.take() == 1


def test_a_changed_schedule_starts_over(server: EmbeddedServer) -> None:
    with Client(server.socket_path) as client:
        slots = Slots(server, client.redis)
        slots.ask(-HOUR_MS, -HOUR_MS)

        assert slots.ask(-1, schedule="hourly") == [True] and slots.take() == 0
        assert slots.ask(1, schedule="hourly") == [True] and slots.take() == 1


def test_a_server_that_lost_its_data_goes_on_with_the_next_slot(server: EmbeddedServer) -> None:
    with Client(server.socket_path) as client:
        slots = Slots(server, client.redis)
        slots.ask(1)
        client.redis.delete(timers_key(slots.uid))

        assert slots.ask(2, 1) == [True] and slots.take() == 2


@pytest.mark.parametrize(("ahead_ms", "expected"), [(HOUR_MS // 2, 0), (24 * HOUR_MS, 1)])
def test_a_clock_that_was_ahead_repeats_no_slot_and_stops_no_schedule(
    server: EmbeddedServer, ahead_ms: int, expected: int
) -> None:
    with Client(server.socket_path) as client:
        slots = Slots(server, client.redis)
        slots.ask(ahead_ms, -1)
        assert slots.take() == 1

        assert slots.ask(1) == [True] and slots.take() == expected
