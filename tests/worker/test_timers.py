"""Timers call an agent's block once per interval, across owners and restarts."""

import time
from itertools import pairwise

import pytest

from tests.support.bundles import STORE, Json, make_agent, make_bundle, make_uid
from tests.support.client import Client, input_of
from tests.support.deferred_calls import Service
from tests.support.locks import locked
from tests.support.system import TestSystem
from tests.support.waiting import LATE_S, wait_for


def make_ticking(name: str = "clock", every_s: float | str = 1, **keys: object) -> Json:
    """Return an agent with a timer, which answers ERR to an empty text."""
    return make_agent(name, "add_1", senders="nobody") | {"wf_interval_secs": every_s} | keys


def ticks(client: Client, uid: str, name: str = "clock") -> list[int]:
    """Return the seconds of the server's clock in which a timer called an agent."""
    return [
        int(said.input.partition("-")[0]) // 1000 for said in client.log(uid) if said.sender == name
    ]


def await_ticks(system: TestSystem, uid: str, count: int, name: str = "clock") -> None:
    wait_for(lambda: len(ticks(system.client, uid, name)) >= count, f"{count} ticks of {name}")


def test_a_timer_calls_its_block_once_per_interval(system: TestSystem) -> None:
    uid = make_uid()
    system.deploy(make_bundle(uid, make_ticking()))

    await_ticks(system, uid, 3)

    found = ticks(system.client, uid)
    assert len(set(found)) == len(found)
    assert found[-1] - found[0] < len(found) + LATE_S
    assert {(said.text, said.envelope["id"]) for said in system.client.log(uid)} == {
        ("ERR", "clock_")
    }


def test_each_agent_has_its_own_interval(system: TestSystem) -> None:
    uid = make_uid()
    agents = [
        make_ticking("one", "1"),
        make_ticking("two", 2.0),
        make_ticking("never", 0),
        make_ticking("later", 3000),
    ]
    system.deploy(make_bundle(uid, *agents))

    await_ticks(system, uid, 2, "two")
    await_ticks(system, uid, 3, "one")

    two, one = (ticks(system.client, uid, name) for name in ("two", "one"))
    assert all(at % 2 in (0, 1) for at in two) and len({at // 2 for at in two}) == len(two)
    assert len(set(one)) == len(one) and min(later - at for at, later in pairwise(one)) < 2
    assert not ticks(system.client, uid, "never") + ticks(system.client, uid, "later")


def test_a_deploy_and_a_removal_end_a_timer_at_once(system: TestSystem) -> None:
    stays, changed, removed = make_uid(), make_uid(), make_uid()
    system.deploy(*[make_bundle(uid, make_ticking()) for uid in (stays, changed, removed)])
    for uid in (changed, removed):
        await_ticks(system, uid, 1)

    system.deploy(make_bundle(changed, make_ticking(every_s=0)))
    system.remove(removed)
    await_ticks(system, stays, len(ticks(system.client, stays)) + 2)
    before = [ticks(system.client, uid) for uid in (changed, removed)]
    await_ticks(system, stays, len(ticks(system.client, stays)) + 2)

    assert [ticks(system.client, uid) for uid in (changed, removed)] == before


@pytest.mark.slow
def test_restarts_neither_repeat_nor_make_up_for_ticks() -> None:
    uid = make_uid()
    with TestSystem() as system:
        worker = system.start_worker(bundles=[make_bundle(uid, make_ticking())])
        await_ticks(system, uid, 1)
        for _ in range(2):
            worker.kill()
            worker = system.start_worker()
        worker.kill()
        before = len(ticks(system.client, uid))
        time.sleep(3.5)
        worker, began = system.start_worker(), int(time.time())
        await_ticks(system, uid, before + 2)

        found = ticks(system.client, uid)
        assert len(set(found)) == len(found)
        assert all(at >= began - 2 for at in found[before + 1 :])
        assert worker.stop() == 0


@pytest.mark.slow
def test_a_successor_continues_without_repeating_a_tick() -> None:
    uid = make_uid()
    with TestSystem() as system:
        first, second = (
            system.start_worker(bundles=[make_bundle(uid, make_ticking())]),
            system.start_worker(),
        )
        await_ticks(system, uid, 2)
        first.kill()
        await_ticks(system, uid, len(ticks(system.client, uid)) + 3)
        third = system.start_worker()
        second.stop()
        await_ticks(system, uid, len(ticks(system.client, uid)) + 2)

        found = ticks(system.client, uid)
        assert len(set(found)) == len(found)
        assert found[-1] - found[0] < len(found) + 6
        assert third.stop() == 0


@pytest.mark.slow
def test_ticks_do_not_accumulate_while_a_store_is_busy(system: TestSystem) -> None:
    uid, longest = make_uid(), 0
    reader = make_agent("clock", "memory_read", {"memory_id": STORE}, senders="nobody") | {
        "wf_interval_secs": 1
    }
    system.deploy(make_bundle(uid, reader))
    await_ticks(system, uid, 1)

    with locked(system.store_file(uid)):
        until = time.monotonic() + 4
        while time.monotonic() < until:
            longest = max(longest, system.client.redis.xlen(input_of(uid)))
            time.sleep(0.05)
    before = len(ticks(system.client, uid))
    await_ticks(system, uid, before + 3)

    assert longest == 1
    found = ticks(system.client, uid)
    assert len(set(found)) == len(found)


def test_a_timer_is_skipped_while_its_block_waits_for_a_deferred_call() -> None:
    uid = make_uid()
    with Service() as service, TestSystem() as system:
        service.hold.clear()
        asks = make_ticking("asks") | {
            "wf_diagram_webhook": "test_fetches",
            "wf_webhook_args": {"url": service.url},
        }
        system.start_worker(bundles=[make_bundle(uid, asks, make_ticking())])
        wait_for(lambda: service.asked, "the timer asks")
        before = len(ticks(system.client, uid))

        await_ticks(system, uid, before + 3)
        assert system.rows(uid, "SELECT count(*) FROM pending", "relay") == [(1,)]
        service.hold.set()
        await_ticks(system, uid, 2, "asks")
