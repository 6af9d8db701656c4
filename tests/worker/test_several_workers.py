"""Several workers on one bus and memory root share the pipelines, each with one owner."""

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from memrelay.bus.keys import owner_key, worker_key
from tests.support.bundles import make_bundle, make_memory, make_relay, make_uid
from tests.support.client import Client, input_of, make_envelope
from tests.support.house import House
from tests.support.waiting import wait_for
from tests.support.worker import arm, start_worker_process


@pytest.fixture
def house() -> Iterator[House]:
    """A server and a memory root without a worker."""
    with House() as house:
        yield house


def make_bundles(count: int) -> list[dict[str, Any]]:
    return [make_bundle(make_uid()) for _ in range(count)]


def owners(house: House, bundles: list[dict[str, Any]]) -> dict[str, str]:
    """Return the owner's process id by uid; "" for none."""
    return {bundle["pipeline_uid"]: owner_of(house, bundle["pipeline_uid"]) for bundle in bundles}


def owner_of(house: House, uid: str) -> str:
    lease = (house.client.redis.hget(owner_key(uid), "worker") or b"").decode()
    return lease.split(":")[1] if lease and house.client.redis.exists(worker_key(lease)) else ""


def await_shares(house: House, bundles: list[dict[str, Any]], *shares: int) -> None:
    """Wait until all pipelines are owned, and each worker has the given number."""

    def as_wanted() -> bool:
        counts = Counter(owners(house, bundles).values())
        return sorted(counts.values()) == sorted(shares) and "" not in counts

    wait_for(as_wanted, f"shares of {shares}")


def test_a_new_worker_gets_its_share_and_returns_it_at_its_end(house: House) -> None:
    bundles = make_bundles(5)
    first = house.start_worker(bundles=bundles)
    await_shares(house, bundles, 5)

    second = house.start_worker()
    await_shares(house, bundles, 3, 2)
    for bundle in bundles:
        house.client.answer(bundle["pipeline_uid"], "/write tea")
    assert second.stop() == 0
    await_shares(house, bundles, 5)

    assert all(house.contents(bundle["pipeline_uid"]) == ["tea"] for bundle in bundles)
    assert first.stop() == 0


@pytest.mark.slow
def test_messages_run_once_while_pipelines_move(house: House) -> None:
    bundles = make_bundles(3)
    uids = [bundle["pipeline_uid"] for bundle in bundles]
    house.start_worker(bundles=bundles)
    await_shares(house, bundles, 3)
    texts: dict[str, list[str]] = {uid: [] for uid in uids}
    for number in range(6):
        worker = house.start_worker(ready=False)
        for turn in range(20):
            for uid in uids:
                texts[uid] += [f"{number}.{turn}.{copy}" for copy in range(5)]
                house.client.enter_together(uid, [f"/write {text}" for text in texts[uid][-5:]])
            time.sleep(0.02)
        worker.await_ready()
        worker.stop() if number % 2 else worker.kill()
    for uid in uids:
        house.client.await_quiet(uid)

    for uid in uids:
        assert sorted(house.contents(uid)) == sorted(texts[uid])
        assert not house.dead_letters(uid)
        assert house.client.unacknowledged(uid) == 0


def test_a_message_received_by_two_owners_is_appended_once(house: House) -> None:
    uid, limits = make_uid(), {"lease_s": 1}
    stale = house.start_worker(bundles=[make_bundle(uid)], limits=limits)
    house.client.answer(uid, "/write before")
    os.kill(stale.pid, signal.SIGSTOP)
    heir = house.start_worker(limits=limits)
    wait_for(lambda: "pipelines_served" in heir.said, "another worker took over and listens")

    house.client.publish(uid, make_envelope("/write heard"))
    wait_for(lambda: "heard" in house.contents(uid), "it is received")
    os.kill(stale.pid, signal.SIGCONT)
    wait_for(
        lambda: "bus_lost" in stale.said or "worker_fenced" in stale.said, "the stale owner knows"
    )
    time.sleep(0.3)

    assert house.contents(uid) == ["before", "heard"]


def test_a_paused_owner_without_a_successor_continues(house: House) -> None:
    uid = make_uid()
    worker = house.start_worker(bundles=[make_bundle(uid)], limits={"lease_s": 0.5})
    house.client.answer(uid, "/write before")

    os.kill(worker.pid, signal.SIGSTOP)
    time.sleep(1)
    os.kill(worker.pid, signal.SIGCONT)

    house.client.answer(uid, "/write after")
    assert "worker_fenced" not in worker.said


def test_an_empty_bus_does_not_lower_the_epochs_that_stores_know(house: House) -> None:
    uid = make_uid()
    for number in range(3):
        house.start_worker(bundles=[] if number else [make_bundle(uid)])
        house.client.answer(uid, "/write tea")
        house.workers[-1].kill()

    house.client.redis.flushall()
    house.start_worker()
    house.client.answer(uid, "/write more")

    ((epoch,),) = house.rows(uid, "SELECT epoch FROM fence")
    assert epoch > 3
    assert int(house.client.redis.hget(owner_key(uid), "epoch")) == epoch
    assert house.contents(uid) == ["tea", "tea", "tea", "more"]


def test_pipelines_that_begin_to_share_a_store_get_one_owner(house: House) -> None:
    one, two = make_uid(), make_uid()
    bundles = [make_bundle(one), make_bundle(two)]
    house.start_worker(bundles=bundles)
    house.start_worker()
    await_shares(house, bundles, 1, 1)

    note = make_memory("write", memory_id=f"instances/{one}/memories")
    house.deploy(make_bundle(two, make_relay("write", r"^/write\s+(.*)"), note))
    await_shares(house, bundles, 2)

    for uid in (one, two, one, two):
        house.client.answer(uid, f"/write {uid}")
    assert house.contents(one) == [one, two, one, two]


def test_a_worker_of_another_bus_is_refused_with_the_reason(house: House) -> None:
    uid = make_uid()
    house.start_worker(bundles=[make_bundle(uid)])
    with House() as elsewhere:
        stranger = start_worker_process(elsewhere.server.socket_path, house.root)
        house.workers.append(stranger)

        assert stranger.await_end() != 0
        assert (
            f"workers of the bus unix://{house.server.socket_path} serve {house.root}"
            in stranger.said
        )
    assert "guid" in house.client.answer(uid, "/write tea")


def test_entries_of_a_dead_worker_run_and_its_consumer_is_deleted(
    house: House,
) -> None:
    uid = make_uid()
    worker = house.start_stepping_worker(
        bundles=[make_bundle(uid)], armed=False, die_on="committed"
    )
    arm(worker)
    idents = house.client.enter_together(uid, ["/write one", "/write two"])
    worker.await_end()

    house.start_worker()
    for ident in idents:
        house.client.await_done(uid, ident)

    assert house.contents(uid) == ["one", "two"]
    with Client(house.client.socket) as client:
        wait_for(
            lambda: len(client.redis.xinfo_consumers(input_of(uid), "owner")) == 1,
            "one consumer is left",
        )


def test_a_replaced_owner_writes_nothing_after_the_bus_lost_all_epochs(
    house: House,
) -> None:
    uid, limits = make_uid(), {"lease_s": 1, "batch": 2}
    stale = house.start_stepping_worker(
        bundles=[make_bundle(uid)], limits=limits, armed=False, die_on="sent", signal=signal.SIGSTOP
    )
    house.client.answer(uid, "/write before")
    arm(stale)
    house.client.enter_together(uid, [f"/write {number}" for number in range(8)])
    wait_for(lambda: house.steps.count("sent") > 1, "it is paused")

    house.client.redis.flushall()
    house.start_worker(limits=limits)
    house.client.answer(uid, "/write after")
    os.kill(stale.pid, signal.SIGCONT)
    wait_for(lambda: "worker_fenced" in stale.said, "the paused worker knows")

    assert house.contents(uid) == ["before", "0", "1", "after"]
