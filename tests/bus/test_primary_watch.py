"""A process follows the primary that the Sentinels name, and leaves a former one at once."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from memrelay.bus.client.connection import connect
from memrelay.bus.client.known_primary import (
    CONTRADICTED_S,
    KnownPrimary,
    Primary,
    find_known_primary,
)
from memrelay.bus.client.primary import MAX_AGE_S
from memrelay.bus.client.primary_watch import watch_primary
from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.client.resp import pack
from memrelay.bus.client.url import Address, parse
from memrelay.bus.errors import BusUnavailable
from memrelay.bus.streams.entry import NewEntry
from memrelay.bus.streams.ingress import Ingress
from tests.support.replicated_bus import SentinelBus, free_port
from tests.support.waiting import PATIENCE_S

FIRST, SECOND = Primary(1, "a", 1), Primary(2, "b", 2)
ENTRY = NewEntry("p1", b"{}", swarm="chat")


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SentinelBus]:
    with SentinelBus(tmp_path_factory.mktemp("bus"), replicas=1) as bus:
        yield bus


@pytest.fixture
def address(bus: SentinelBus) -> Address:
    """Return an address about which this process knows nothing. One of its Sentinels is gone."""
    address = parse(bus.url)
    return replace(address, sentinels=(*address.sentinels, ("127.0.0.1", free_port())))


def replace_primary(bus: SentinelBus, address: Address) -> None:
    """Let this process learn of a failover to the replica, which has not happened."""
    (replica,) = [one for one in bus.servers if one is not bus.primary]
    newest = Primary(99, "127.0.0.1", replica.port)
    find_known_primary(address).take([newest], is_majority=False)


class Clock:
    """Seconds that pass only when a test says so."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


async def take(known: KnownPrimary, *answers: Primary) -> Primary | None:
    known.take(answers, is_majority=len(answers) > 1)
    return known.primary


def test_the_highest_epoch_counts() -> None:
    async def learn() -> None:
        known = KnownPrimary("group")

        assert await take(known, FIRST, FIRST) == FIRST
        assert await take(known, SECOND, FIRST, FIRST) == SECOND
        assert await take(known, FIRST, FIRST) == SECOND
        assert (known.is_current(FIRST.server), known.is_current(SECOND.server)) == (False, True)

    asyncio.run(learn())


def test_a_majority_with_lower_epochs_counts_after_a_while() -> None:
    """Sentinels that lost their files begin again with epoch 0."""

    async def learn() -> None:
        clock = Clock()
        known = KnownPrimary("group", clock)
        await take(known, SECOND, SECOND)

        assert await take(known, FIRST, FIRST) == SECOND
        clock.now_s = CONTRADICTED_S - 1
        assert await take(known, FIRST, FIRST, SECOND) == SECOND
        clock.now_s = CONTRADICTED_S + 1
        assert await take(known, FIRST, FIRST) == SECOND
        clock.now_s += CONTRADICTED_S
        assert await take(known, FIRST) == SECOND
        assert await take(known, FIRST, FIRST) == SECOND
        clock.now_s += CONTRADICTED_S
        assert await take(known, FIRST, FIRST) == FIRST

    asyncio.run(learn())


def test_replies_that_are_due_fail_once_the_primary_is_replaced(
    bus: SentinelBus, address: Address
) -> None:
    async def wait_at_the_former_primary() -> None:
        data = await connect(address)
        async with ReconnectingConnection(address) as control, asyncio.timeout(PATIENCE_S):
            blocked = asyncio.create_task(control.call("BLPOP", "nothing", 0))
            await control.call("PING")
            due = data.send(pack("BLPOP", "nothing", 0))
            replace_primary(bus, address)

            for future in (blocked, due):
                with pytest.raises(BusUnavailable):
                    await future
            await data.close()

    asyncio.run(wait_at_the_former_primary())


def test_connections_of_other_threads_are_closed(bus: SentinelBus, address: Address) -> None:
    async def wait_in_this_thread() -> None:
        data = await connect(address)
        due = data.send(pack("BLPOP", "nothing", 0))
        await asyncio.to_thread(asyncio.run, learn())
        with pytest.raises(BusUnavailable):
            async with asyncio.timeout(PATIENCE_S):
                await due
        await data.close()

    async def learn() -> None:
        replace_primary(bus, address)

    asyncio.run(wait_in_this_thread())


def test_a_former_primary_acknowledges_nothing(bus: SentinelBus, address: Address) -> None:
    async def append() -> None:
        async with Ingress(address) as ingress:
            await ingress.append(ENTRY)
            under_way = asyncio.create_task(ingress.append(ENTRY))
            await asyncio.sleep(0)
            replace_primary(bus, address)
            for appended in (under_way, ingress.append(ENTRY)):
                with pytest.raises(BusUnavailable):
                    await appended

    asyncio.run(append())


def test_old_answers_are_renewed_before_an_append_is_acknowledged(
    bus: SentinelBus, address: Address
) -> None:
    """A process that was paused may have missed a failover."""

    async def append() -> None:
        known = find_known_primary(address)
        async with Ingress(address) as ingress:
            await ingress.append(ENTRY)
            known.primary = Primary(-1, "127.0.0.1", bus.primary.port)
            known.asked_s = began_s = time.monotonic() - MAX_AGE_S
            await ingress.append(ENTRY)

        assert known.primary.epoch == 0
        assert known.asked_s > began_s

    asyncio.run(append())


def test_a_watch_learns_what_the_sentinels_say(bus: SentinelBus, address: Address) -> None:
    async def watch() -> None:
        known = find_known_primary(address)
        async with watch_primary(address), asyncio.timeout(PATIENCE_S):
            while known.primary is None:
                await asyncio.sleep(0.01)

        assert known.primary.server == ("127.0.0.1", bus.primary.port)

    asyncio.run(watch())


def test_sentinels_that_are_gone_stop_no_append(bus: SentinelBus, address: Address) -> None:
    gone = replace(address, sentinels=(*address.sentinels[:1], ("127.0.0.1", 1), ("127.0.0.1", 2)))

    async def append() -> str:
        async with watch_primary(gone), Ingress(gone) as ingress:
            return await ingress.append(ENTRY)

    assert asyncio.run(append())
    assert find_known_primary(gone).asked_s == float("inf")
