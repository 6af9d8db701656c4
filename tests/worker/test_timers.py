"""Timers call an agent's block once per interval, across owners and restarts."""

import time
from itertools import pairwise

import pytest

from tests.support.bundles import STORE, Json, make_agent, make_bundle, make_uid
from tests.support.client import Client, input_of
from tests.support.deferred_calls import Service
from tests.support.house import House
from tests.support.locks import locked
from tests.support.waiting import LATE_S, wait_for


def make_ticking(name: str = "clock", every_s: float | str = 1, **keys: object) -> Json:
    """Return an agent with a timer, which answers ERR to an empty text."""
    return make_agent(name, "add_1", hears="nobody") | {"wf_interval_secs": every_s} | keys


def ticks(client: Client, uid: str, name: str = "clock") -> list[int]:
    """Return the seconds of the server's clock in which a timer called an agent."""
    return [
        int(said.input.partition("-")[0]) // 1000 for said in client.log(uid) if said.sender == name
    ]


def await_ticks(house: House, uid: str, count: int, name: str = "clock") -> None:
    wait_for(lambda: len(ticks(house.client, uid, name)) >= count, f"{count} ticks of {name}")


def test_a_timer_calls_its_block_once_per_interval(house: House) -> None:
    uid = make_uid()
    house.deploy(make_bundle(uid, make_ticking()))

    await_ticks(house, uid, 3)

    found = ticks(house.client, uid)
    assert len(set(found)) == len(found)
    assert found[-1] - found[0] < len(found) + LATE_S
    assert {(said.text, said.envelope["id"]) for said in house.client.log(uid)} == {
        ("ERR", "clock_")
    }


def test_each_agent_has_its_own_interval(house: House) -> None:
    uid = make_uid()
    agents = [
        make_ticking("one", "1"),
        make_ticking("two", 2.0),
        make_ticking("never", 0),
        make_ticking("later", 3000),
    ]
    house.deploy(make_bundle(uid, *agents))

    await_ticks(house, uid, 2, "two")
    await_ticks(house, uid, 3, "one")

    two, one = (ticks(house.client, uid, name) for name in ("two", "one"))
    assert all(at % 2 in (0, 1) for at in two) and len({at // 2 for at in two}) == len(two)
    assert len(set(one)) == len(one) and min(later - at for at, later in pairwise(one)) < 2
    assert not ticks(house.client, uid, "never") + ticks(house.client, uid, "later")


def test_a_deploy_and_a_removal_end_a_timer_at_once(house: House) -> None:
    stays, changed, removed = make_uid(), make_uid(), make_uid()
    house.deploy(*[make_bundle(uid, make_ticking()) for uid in (stays, changed, removed)])
    for uid in (changed, removed):
        await_ticks(house, uid, 1)

    house.deploy(make_bundle(changed, make_ticking(every_s=0)))
    house.remove(removed)
    await_ticks(house, stays, len(ticks(house.client, stays)) + 2)
    before = [ticks(house.client, uid) for uid in (changed, removed)]
    await_ticks(house, stays, len(ticks(house.client, stays)) + 2)

    assert [ticks(house.client, uid) for uid in (changed, removed)] == before


@pytest.mark.slow
def test_restarts_neither_repeat_nor_make_up_for_ticks() -> None:
    uid = make_uid()
    with House() as house:
        worker = house.start_worker(bundles=[make_bundle(uid, make_ticking())])
        await_ticks(house, uid, 1)
        for _ in range(2):
            worker.kill()
            worker = house.start_worker()
        worker.kill()
        before = len(ticks(house.client, uid))
        time.sleep(3.5)
        worker, began = house.start_worker(), int(time.time())
        await_ticks(house, uid, before + 2)

        found = ticks(house.client, uid)
        assert len(set(found)) == len(found)
        assert all(at >= began - 2 for at in found[before + 1 :])
        assert worker.stop() == 0


@pytest.mark.slow
def test_a_successor_continues_without_repeating_a_tick() -> None:
    uid = make_uid()
    with House() as house:
        first, second = (
            house.start_worker(bundles=[make_bundle(uid, make_ticking())]),
            house.start_worker(),
        )
        await_ticks(house, uid, 2)
        first.kill()
        await_ticks(house, uid, len(ticks(house.client, uid)) + 3)
        third = house.start_worker()
        second.stop()
        await_ticks(house, uid, len(ticks(house.client, uid)) + 2)

        found = ticks(house.client, uid)
        assert len(set(found)) == len(found)
        assert found[-1] - found[0] < len(found) + 6
        assert third.stop() == 0


@pytest.mark.slow
def test_ticks_do_not_accumulate_while_a_store_is_busy(house: House) -> None:
    uid, longest = make_uid(), 0
    reader = make_agent("clock", "memory_read", {"memory_id": STORE}, hears="nobody") | {
        "wf_interval_secs": 1
    }
    house.deploy(make_bundle(uid, reader))
    await_ticks(house, uid, 1)

    with locked(house.store_file(uid)):
        until = time.monotonic() + 4
        while time.monotonic() < until:
            longest = max(longest, house.client.redis.xlen(input_of(uid)))
            time.sleep(0.05)
    before = len(ticks(house.client, uid))
    await_ticks(house, uid, before + 3)

    assert longest == 1
    found = ticks(house.client, uid)
    assert len(set(found)) == len(found)


def test_a_timer_is_skipped_while_its_block_waits_for_a_deferred_call() -> None:
    uid = make_uid()
    with Service() as service, House() as house:
        service.hold.clear()
        asks = make_ticking("asks") | {
            "wf_diagram_webhook": "test_fetches",
            "wf_webhook_args": {"url": service.url},
        }
        house.start_worker(bundles=[make_bundle(uid, asks, make_ticking())])
        wait_for(lambda: service.asked, "the timer asks")
        before = len(ticks(house.client, uid))

        await_ticks(house, uid, before + 3)
        assert house.rows(uid, "SELECT count(*) FROM pending", "relay") == [(1,)]
        service.hold.set()
        await_ticks(house, uid, 2, "asks")
