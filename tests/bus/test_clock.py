"""The time of the bus between two looks at it."""

import asyncio
import time

import pytest

from memrelay.bus.client.connection import connect
from memrelay.bus.client.url import Address
from memrelay.bus.embedded.launcher import EmbeddedServer
from memrelay.bus.lease.workers import BusClock

HOUR_MS = 3_600_000


class Seconds:
    """A monotonic clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_it_goes_on_from_what_the_server_said() -> None:
    seconds = Seconds()
    clock = BusClock(seconds)

    clock.hear(5 * HOUR_MS, seconds.now * 1000)
    seconds.now += 2

    assert clock.now_ms == 5 * HOUR_MS + 2000


def test_an_answer_that_comes_late_moves_nothing_that_fits_it() -> None:
    seconds = Seconds()
    clock = BusClock(seconds)
    clock.hear(HOUR_MS, seconds.now * 1000)

    seconds.now += 5
    clock.hear(HOUR_MS + 1000, seconds.now * 1000 - 5000)  # said 4 s ago

    assert clock.now_ms == HOUR_MS + 5000


@pytest.mark.parametrize("set_by_ms", [HOUR_MS, -HOUR_MS])
def test_a_server_whose_clock_is_set_is_followed(set_by_ms: int) -> None:
    seconds = Seconds()
    clock = BusClock(seconds)
    clock.hear(2 * HOUR_MS, seconds.now * 1000)

    clock.hear(2 * HOUR_MS + set_by_ms, seconds.now * 1000)

    assert abs(clock.now_ms - 2 * HOUR_MS - set_by_ms) <= 1


def test_a_server_is_asked(server: EmbeddedServer) -> None:
    async def asked() -> int:
        clock, connection = BusClock(), await connect(Address(path=str(server.socket_path)))
        await clock.look(connection)
        await connection.close()
        return clock.now_ms

    assert abs(asyncio.run(asked()) - time.time() * 1000) < 1000
