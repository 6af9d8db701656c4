"""Row 5: the owner of a pipeline is killed, or paused beyond its lease and then continued."""

import os
import random
import signal
import time

import orjson
import pytest

from memrelay.bus.keys import owner_key, worker_key
from tests.faults.conftest import Tell
from tests.faults.promises import assert_promises
from tests.support.bundles import make_bundle, make_uid
from tests.support.child import ChildProcess
from tests.support.house import House
from tests.support.waiting import wait_for
from tests.support.worker import arm

LEASE_S = 1
LIMITS = {"lease_s": LEASE_S, "log_length": 200_000}
STALE = ("bus_lost", "worker_fenced")  # events of a worker that was replaced


def owner_of(house: House, uid: str) -> int:
    """Return the process ID of the live worker that owns a pipeline; 0 if there is none."""
    lease = (house.client.redis.hget(owner_key(uid), "worker") or b"").decode()
    return int(lease.split(":")[1]) if lease and house.client.redis.exists(worker_key(lease)) else 0


def is_stopped(worker: ChildProcess) -> bool:
    with open(f"/proc/{worker.pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] == "T"


def test_a_killed_owner_is_replaced_at_once_on_its_host(tell: Tell) -> None:
    uids, took = [make_uid() for _ in range(4)], []
    with House() as house:
        workers = [
            house.start_worker(bundles=[] if number else [make_bundle(uid) for uid in uids])
            for number in range(2)
        ]
        wait_for(lambda: len({owner_of(house, uid) for uid in uids} - {0}) == 2, "they share")

        workers[0].kill()
        began = time.monotonic()
        for uid in uids:
            house.client.answer(uid, "/write tea")
            took.append(time.monotonic() - began)

        tell(5, "owner killed, followed on its host", pipelines=4, all_served_after_s=took[-1])
        for uid in uids:
            assert_promises(house, uid, ["tea"])


@pytest.mark.parametrize("step", ["committed", "before sending", "sent", "confirmed"])
def test_an_owner_paused_beyond_its_lease_is_fenced(step: str, tell: Tell) -> None:
    uid = make_uid()
    with House() as house:
        stale = house.start_stepping_worker(
            bundles=[make_bundle(uid)],
            limits=LIMITS,
            armed=False,
            die_on=step,
            signal=signal.SIGSTOP,
        )
        house.client.answer(uid, "/write before")
        arm(stale)
        ident = house.client.enter(uid, "/write tea")
        wait_for(lambda: is_stopped(stale), "the owner is paused")

        began, heir = time.monotonic(), house.start_worker(limits=LIMITS)
        house.client.await_done(uid, ident)
        took_s = time.monotonic() - began
        house.client.answer(uid, "/write after")
        os.kill(stale.pid, signal.SIGCONT)
        wait_for(lambda: any(event in stale.said for event in STALE), "the stale owner knows")
        house.client.answer(uid, "/write at last")

        assert owner_of(house, uid) == heir.pid
        guids = {
            orjson.loads(one.text)["guid"]
            for one in house.client.log(uid)
            if one.input == ident and "guid" in one.text
        }
        assert len(guids) == 1
        assert_promises(house, uid, ["before", "tea", "after", "at last"])
        heir.kill()
        assert "guid" in house.client.answer(uid, "/write again"), "the one that was paused follows"
        tell(
            5,
            f"owner paused beyond a lease of {LEASE_S} s at {step!r}, then goes on",
            followed_after_s=took_s,
        )


def test_a_worker_that_hangs_in_a_transaction_after_it_lost_its_lease_is_ended() -> None:
    uid = make_uid()
    with House() as house:
        hung = house.start_stepping_worker(
            bundles=[make_bundle(uid)],
            limits=LIMITS,
            armed=False,
            die_on="before commit",
            signal=signal.SIGSTOP,
        )
        house.client.answer(uid, "/write before")
        arm(hung)
        ident = house.client.enter(uid, "/write tea")
        wait_for(lambda: is_stopped(hung), "the owner hangs with the lock")

        heir = house.start_worker(limits=LIMITS)
        house.client.await_done(uid, ident)

        assert f"is locked by another program (process {hung.pid}, " in heir.said
        assert "hung_worker_ended" in heir.said
        assert not hung.lives
        assert_promises(house, uid, ["before", "tea"])


@pytest.mark.parametrize(
    "seconds", [6, pytest.param(60, marks=[pytest.mark.slow, pytest.mark.timeout(300)])]
)
def test_random_pauses_kills_and_stops_of_owners_lose_nothing(seconds: int, tell: Tell) -> None:
    uids = [make_uid() for _ in range(3)]
    texts: dict[str, list[str]] = {uid: [] for uid in uids}
    with House() as house:
        crowd = Crowd(house, random.Random(5))
        crowd.start([make_bundle(uid) for uid in uids])
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for uid in uids:
                some = make_names(len(texts[uid]))
                house.client.enter_together(uid, [f"/write {text}" for text in some])
                texts[uid] += some
            time.sleep(0.05)
            crowd.suffer()
        crowd.recover()

        for uid in uids:
            assert_promises(house, uid, texts[uid])
        tell(
            5,
            "three owners paused, killed and told to end at random",
            **crowd.counts,
            messages=sum(map(len, texts.values())),
        )


def make_names(start: int) -> list[str]:
    return [str(number) for number in range(start, start + 10)]


class Crowd:
    """Workers that are killed, paused and continued at random."""

    def __init__(self, house: House, moments: random.Random) -> None:
        self._house, self._moments = house, moments
        self._paused: list[tuple[float, ChildProcess]] = []
        self.counts = {"paused": 0, "killed": 0, "ended": 0, "started": 0}

    def start(self, bundles: list[dict[str, object]]) -> None:
        """Start three workers."""
        for number in range(3):
            self._house.start_worker(bundles=[] if number else bundles, limits=LIMITS)

    def suffer(self) -> None:
        """Perhaps disturb a worker, and continue those that were paused long enough."""
        for until, worker in [one for one in self._paused if one[0] < time.monotonic()]:
            self._paused.remove((until, worker))
            self._go_on(worker)
        if self._moments.random() > 0.15:
            return
        paused = [worker for _, worker in self._paused]
        able = [worker for worker in self._house.workers if worker.lives and worker not in paused]
        kind = self._moments.choice(["paused", "paused", "killed", "ended", "started"])
        if kind == "started" or len(able) < 2:
            self._house.start_worker(limits=LIMITS, ready=False)
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
        self._house.start_worker(limits=LIMITS)
