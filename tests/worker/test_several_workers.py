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
from tests.support.system import TestSystem
from tests.support.waiting import wait_for
from tests.support.worker import arm, start_worker_process


@pytest.fixture
def system() -> Iterator[TestSystem]:
    """A server and a memory root without a worker."""
    with TestSystem() as system:
        yield system


def make_bundles(count: int) -> list[dict[str, Any]]:
    return [make_bundle(make_uid()) for _ in range(count)]


def owners(system: TestSystem, bundles: list[dict[str, Any]]) -> dict[str, str]:
    """Return the owner's process id by uid; "" for none."""
    return {bundle["pipeline_uid"]: owner_of(system, bundle["pipeline_uid"]) for bundle in bundles}


def owner_of(system: TestSystem, uid: str) -> str:
    lease = (system.client.redis.hget(owner_key(uid), "worker") or b"").decode()
    return lease.split(":")[1] if lease and system.client.redis.exists(worker_key(lease)) else ""


def await_shares(system: TestSystem, bundles: list[dict[str, Any]], *shares: int) -> None:
    """Wait until all pipelines are owned, and each worker has the given number."""

    def as_wanted() -> bool:
        counts = Counter(owners(system, bundles).values())
        return sorted(counts.values()) == sorted(shares) and "" not in counts

    wait_for(as_wanted, f"shares of {shares}")


def test_a_new_worker_gets_its_share_and_returns_it_at_its_end(system: TestSystem) -> None:
    bundles = make_bundles(5)
    first = system.start_worker(bundles=bundles)
    await_shares(system, bundles, 5)

    second = system.start_worker()
    await_shares(system, bundles, 3, 2)
    for bundle in bundles:
        system.client.answer(bundle["pipeline_uid"], "/write tea")
    assert second.stop() == 0
    await_shares(system, bundles, 5)

    assert all(system.contents(bundle["pipeline_uid"]) == ["tea"] for bundle in bundles)
    assert first.stop() == 0


@pytest.mark.slow
def test_messages_run_once_while_pipelines_move(system: TestSystem) -> None:
    bundles = make_bundles(3)
    uids = [bundle["pipeline_uid"] for bundle in bundles]
    system.start_worker(bundles=bundles)
    await_shares(system, bundles, 3)
    texts: dict[str, list[str]] = {uid: [] for uid in uids}
    for number in range(6):
        worker = system.start_worker(ready=False)
        for turn in range(20):
            for uid in uids:
                texts[uid] += [f"{number}.{turn}.{copy}" for copy in range(5)]
                system.client.enter_together(uid, [f"/write {text}" for text in texts[uid][-5:]])
            time.sleep(0.02)
        worker.await_ready()
        worker.stop() if number % 2 else worker.kill()
    for uid in uids:
        system.client.await_quiet(uid)

    for uid in uids:
        assert sorted(system.contents(uid)) == sorted(texts[uid])
        assert not system.dead_letters(uid)
        assert system.client.unacknowledged(uid) == 0


def test_a_message_received_by_two_owners_is_appended_once(system: TestSystem) -> None:
    uid, limits = make_uid(), {"lease_s": 1}
    stale = system.start_worker(bundles=[make_bundle(uid)], limits=limits)
    system.client.answer(uid, "/write before")
    os.kill(stale.pid, signal.SIGSTOP)
    heir = system.start_worker(limits=limits)
    wait_for(lambda: "pipelines_served" in heir.output, "another worker took over and listens")

    system.client.publish(uid, make_envelope("/write heard"))
    wait_for(lambda: "heard" in system.contents(uid), "it is received")
    os.kill(stale.pid, signal.SIGCONT)
    wait_for(
        lambda: "bus_lost" in stale.output or "worker_fenced" in stale.output,
        "the stale owner knows",
    )
    time.sleep(0.3)

    assert system.contents(uid) == ["before", "heard"]


def test_a_paused_owner_without_a_successor_continues(system: TestSystem) -> None:
    uid = make_uid()
    worker = system.start_worker(bundles=[make_bundle(uid)], limits={"lease_s": 0.5})
    system.client.answer(uid, "/write before")

    os.kill(worker.pid, signal.SIGSTOP)
    time.sleep(1)
    os.kill(worker.pid, signal.SIGCONT)

    system.client.answer(uid, "/write after")
    assert "worker_fenced" not in worker.output


def test_an_empty_bus_does_not_lower_the_epochs_that_stores_know(system: TestSystem) -> None:
    uid = make_uid()
    for number in range(3):
        system.start_worker(bundles=[] if number else [make_bundle(uid)])
        system.client.answer(uid, "/write tea")
        system.workers[-1].kill()

    system.client.redis.flushall()
    system.start_worker()
    system.client.answer(uid, "/write more")

    ((epoch,),) = system.rows(uid, "SELECT epoch FROM fence")
    assert epoch > 3
    assert int(system.client.redis.hget(owner_key(uid), "epoch")) == epoch
    assert system.contents(uid) == ["tea", "tea", "tea", "more"]


def test_pipelines_that_begin_to_share_a_store_get_one_owner(system: TestSystem) -> None:
    one, two = make_uid(), make_uid()
    bundles = [make_bundle(one), make_bundle(two)]
    system.start_worker(bundles=bundles)
    system.start_worker()
    await_shares(system, bundles, 1, 1)

    note = make_memory("write", memory_id=f"instances/{one}/memories")
    system.deploy(make_bundle(two, make_relay("write", r"^/write\s+(.*)"), note))
    await_shares(system, bundles, 2)

    for uid in (one, two, one, two):
        system.client.answer(uid, f"/write {uid}")
    assert system.contents(one) == [one, two, one, two]


def test_a_worker_of_another_bus_is_refused_with_the_reason(system: TestSystem) -> None:
    uid = make_uid()
    system.start_worker(bundles=[make_bundle(uid)])
    with TestSystem() as elsewhere:
        stranger = start_worker_process(elsewhere.server.socket_path, system.root)
        system.workers.append(stranger)

        assert stranger.await_end() != 0
        assert (
            f"workers of the bus unix://{system.server.socket_path} serve {system.root}"
            in stranger.output
        )
    assert "guid" in system.client.answer(uid, "/write tea")


def test_entries_of_a_dead_worker_run_and_its_consumer_is_deleted(
    system: TestSystem,
) -> None:
    uid = make_uid()
    worker = system.start_stepping_worker(
        bundles=[make_bundle(uid)], armed=False, die_on="committed"
    )
    arm(worker)
    idents = system.client.enter_together(uid, ["/write one", "/write two"])
    worker.await_end()

    system.start_worker()
    for ident in idents:
        system.client.await_done(uid, ident)

    assert system.contents(uid) == ["one", "two"]
    with Client(system.client.socket) as client:
        wait_for(
            lambda: len(client.redis.xinfo_consumers(input_of(uid), "owner")) == 1,
            "one consumer is left",
        )


def test_a_replaced_owner_writes_nothing_after_the_bus_lost_all_epochs(
    system: TestSystem,
) -> None:
    uid, limits = make_uid(), {"lease_s": 1, "batch": 2}
    stale = system.start_stepping_worker(
        bundles=[make_bundle(uid)], limits=limits, armed=False, die_on="sent", signal=signal.SIGSTOP
    )
    system.client.answer(uid, "/write before")
    arm(stale)
    system.client.enter_together(uid, [f"/write {number}" for number in range(8)])
    wait_for(lambda: system.steps.count("sent") > 1, "it is paused")

    system.client.redis.flushall()
    system.start_worker(limits=limits)
    system.client.answer(uid, "/write after")
    os.kill(stale.pid, signal.SIGCONT)
    wait_for(lambda: "worker_fenced" in stale.output, "the paused worker knows")

    assert system.contents(uid) == ["before", "0", "1", "after"]
