"""Row 5: the owner of a pipeline is killed, or paused beyond its lease and then continued."""

import os
import random
import signal
import time

import orjson
import pytest

from memrelay.bus.keys import owner_key, worker_key
from tests.faults.conftest import RecordFigures
from tests.faults.invariants import assert_invariants
from tests.support.bundles import make_bundle, make_uid
from tests.support.child import ChildProcess
from tests.support.system import TestSystem
from tests.support.waiting import wait_for
from tests.support.worker import arm

LEASE_S = 1
LIMITS = {"lease_s": LEASE_S, "log_length": 200_000}
STALE = ("bus_lost", "worker_fenced")  # events of a worker that was replaced


def owner_of(system: TestSystem, uid: str) -> int:
    """Return the process ID of the live worker that owns a pipeline; 0 if there is none."""
    lease = (system.client.redis.hget(owner_key(uid), "worker") or b"").decode()
    return (
        int(lease.split(":")[1]) if lease and system.client.redis.exists(worker_key(lease)) else 0
    )


def is_stopped(worker: ChildProcess) -> bool:
    with open(f"/proc/{worker.pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] == "T"


def test_a_killed_owner_is_replaced_at_once_on_its_host(record_figures: RecordFigures) -> None:
    uids, took = [make_uid() for _ in range(4)], []
    with TestSystem() as system:
        workers = [
            system.start_worker(bundles=[] if number else [make_bundle(uid) for uid in uids])
            for number in range(2)
        ]
        wait_for(lambda: len({owner_of(system, uid) for uid in uids} - {0}) == 2, "they share")

        workers[0].kill()
        began = time.monotonic()
        for uid in uids:
            system.client.answer(uid, "/write tea")
            took.append(time.monotonic() - began)

        record_figures(
            5, "owner killed, followed on its host", pipelines=4, all_served_after_s=took[-1]
        )
        for uid in uids:
            assert_invariants(system, uid, ["tea"])


@pytest.mark.parametrize("step", ["committed", "before sending", "sent", "confirmed"])
def test_an_owner_paused_beyond_its_lease_is_fenced(
    step: str, record_figures: RecordFigures
) -> None:
    uid = make_uid()
    with TestSystem() as system:
        stale = system.start_stepping_worker(
            bundles=[make_bundle(uid)],
            limits=LIMITS,
            armed=False,
            die_on=step,
            signal=signal.SIGSTOP,
        )
        system.client.answer(uid, "/write before")
        arm(stale)
        ident = system.client.enter(uid, "/write tea")
        wait_for(lambda: is_stopped(stale), "the owner is paused")

        began, heir = time.monotonic(), system.start_worker(limits=LIMITS)
        system.client.await_done(uid, ident)
        took_s = time.monotonic() - began
        system.client.answer(uid, "/write after")
        os.kill(stale.pid, signal.SIGCONT)
        wait_for(lambda: any(event in stale.output for event in STALE), "the stale owner knows")
        system.client.answer(uid, "/write at last")

        assert owner_of(system, uid) == heir.pid
        guids = {
            orjson.loads(one.text)["guid"]
            for one in system.client.log(uid)
            if one.input == ident and "guid" in one.text
        }
        assert len(guids) == 1
        assert_invariants(system, uid, ["before", "tea", "after", "at last"])
        heir.kill()
        assert "guid" in system.client.answer(uid, "/write again"), (
            "the one that was paused follows"
        )
        record_figures(
            5,
            f"owner paused beyond a lease of {LEASE_S} s at {step!r}, then goes on",
            followed_after_s=took_s,
        )


def test_a_worker_that_hangs_in_a_transaction_after_it_lost_its_lease_is_ended() -> None:
    uid = make_uid()
    with TestSystem() as system:
        hung = system.start_stepping_worker(
            bundles=[make_bundle(uid)],
            limits=LIMITS,
            armed=False,
            die_on="before commit",
            signal=signal.SIGSTOP,
        )
        system.client.answer(uid, "/write before")
        arm(hung)
        ident = system.client.enter(uid, "/write tea")
        wait_for(lambda: is_stopped(hung), "the owner hangs with the lock")

        heir = system.start_worker(limits=LIMITS)
        system.client.await_done(uid, ident)

        assert f"is locked by another program (process {hung.pid}, " in heir.output
        assert "hung_worker_ended" in heir.output
        assert not hung.lives
        assert_invariants(system, uid, ["before", "tea"])


@pytest.mark.parametrize(
    "seconds", [6, pytest.param(60, marks=[pytest.mark.slow, pytest.mark.timeout(300)])]
)
def test_random_pauses_kills_and_stops_of_owners_lose_nothing(
    seconds: int, record_figures: RecordFigures
) -> None:
    uids = [make_uid() for _ in range(3)]
    texts: dict[str, list[str]] = {uid: [] for uid in uids}
    with TestSystem() as system:
        crowd = Crowd(system, random.Random(5))
        crowd.start([make_bundle(uid) for uid in uids])
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for uid in uids:
                some = make_names(len(texts[uid]))
                system.client.enter_together(uid, [f"/write {text}" for text in some])
                texts[uid] += some
            time.sleep(0.05)
            crowd.suffer()
        crowd.recover()

        for uid in uids:
            assert_invariants(system, uid, texts[uid])
        record_figures(
            5,
            "three owners paused, killed and told to end at random",
            **crowd.counts,
            messages=sum(map(len, texts.values())),
        )


def make_names(start: int) -> list[str]:
    return [str(number) for number in range(start, start + 10)]


class Crowd:
    """Workers that are killed, paused and continued at random."""

    def __init__(self, system: TestSystem, moments: random.Random) -> None:
        self._system, self._moments = system, moments
        self._paused: list[tuple[float, ChildProcess]] = []
        self.counts = {"paused": 0, "killed": 0, "ended": 0, "started": 0}

    def start(self, bundles: list[dict[str, object]]) -> None:
        """Start three workers."""
        for number in range(3):
            self._system.start_worker(bundles=[] if number else bundles, limits=LIMITS)

    def suffer(self) -> None:
        """Perhaps disturb a worker, and continue those that were paused long enough."""
        for until, worker in [one for one in self._paused if one[0] < time.monotonic()]:
            self._paused.remove((until, worker))
            self._go_on(worker)
        if self._moments.random() > 0.15:
            return
        paused = [worker for _, worker in self._paused]
        able = [worker for worker in self._system.workers if worker.lives and worker not in paused]
        kind = self._moments.choice(["paused", "paused", "killed", "ended", "started"])
        if kind == "started" or len(able) < 2:
            self._system.start_worker(limits=LIMITS, ready=False)
            self.counts["started"] += 1
            return
        getattr(self, f"_{kind}_one")(self._moments.choice(able))
        self.counts[kind] += 1

    def _paused_one(self, worker: ChildProcess) -> None:
        os.kill(worker.pid, signal.SIGSTOP)
        self._paused.append(
            (time.monotonic() + self._moments.choice([0.3, 1.5 * LEASE_S, 3 * LEASE_S]), worker)
        )

    def _go_on(self, worker: ChildProcess) -> None:
        if worker.lives:  # a worker that was ending when it was paused may be gone
            os.kill(worker.pid, signal.SIGCONT)

    def _killed_one(self, worker: ChildProcess) -> None:
        worker.kill()

    def _ended_one(self, worker: ChildProcess) -> None:
        os.kill(worker.pid, signal.SIGTERM)

    def recover(self) -> None:
        """Continue all workers, and start one if none is left."""
        for _, worker in self._paused:
            self._go_on(worker)
        self._system.start_worker(limits=LIMITS)
