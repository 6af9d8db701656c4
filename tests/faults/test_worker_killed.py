"""Row 1: kill -9 of the worker, at every step of a batch and at random moments under load."""

import random
import time
from functools import partial
from statistics import median

import pytest

from tests.faults.conftest import RecordFigures
from tests.faults.invariants import (
    assert_invariants,
    assert_one_change_for_each_write,
    remaining_work,
)
from tests.faults.write_load import WriteLoad
from tests.support.bundles import make_bundle, make_uid
from tests.support.client import input_of, make_envelope
from tests.support.system import TestSystem
from tests.support.waiting import wait_for
from tests.support.worker import arm

FAULT = "kill -9 of the worker"


def is_done(system: TestSystem, uid: str, written: int) -> bool:
    return len(system.contents(uid)) == written and not remaining_work(system, uid)


def is_recovered(system: TestSystem, uid: str, written: int) -> bool:
    return is_done(system, uid, written) and system.steps[-1] == "recovered"


def enter_one_of_each(system: TestSystem, uid: str, word: str) -> None:
    """Send in one batch: a write, a write with a producer's ID, its duplicate, and an invalid
    entry.
    """
    writes = [
        {"data": make_envelope(f"/write {word}")},
        *[{"data": make_envelope(f"/write {word} named"), "id": word}] * 2,
    ]
    with system.client.redis.pipeline(transaction=True) as pipe:
        for fields in (*writes, {"data": b"broken"}):
            pipe.xadd(input_of(uid), {"swarm": "chat"} | fields)
        pipe.execute()


def assert_all_of_each(system: TestSystem, uid: str, words: list[str]) -> None:
    letters = system.dead_letters(uid)
    assert [letter.data for letter in letters] == [b"broken"] * len(words)
    assert len({letter.id for letter in letters}) == len(words)
    assert_invariants(
        system, uid, [text for word in words for text in (word, f"{word} named")], dead=len(words)
    )
    assert_one_change_for_each_write(system, uid)


def test_the_worker_is_killed_at_every_step_of_a_batch(record_figures: RecordFigures) -> None:
    uid, words = make_uid(), list[str]()
    with TestSystem() as system:
        worker = system.start_stepping_worker(armed=False, die_at=1, bundles=[make_bundle(uid)])
        while True:
            arm(worker)
            words.append(f"word{len(words)}")
            enter_one_of_each(system, uid, words[-1])
            if worker.lives_until(partial(is_done, system, uid, 2 * len(words))):
                break
            worker = system.start_stepping_worker(armed=False, die_at=len(words) + 1)
            assert worker.lives_until(partial(is_done, system, uid, 2 * len(words)))

        assert len(words) > 5, system.steps
        assert {
            "before commit",
            "committed",
            "dead letters stored",
            "before sending",
            "sent",
        } <= set(system.steps)
        assert_all_of_each(system, uid, words)
        record_figures(
            1, f"{FAULT} at every step of a batch", steps=len(words) - 1, effects=2 * len(words)
        )


@pytest.mark.slow
@pytest.mark.parametrize("first_at", ["before commit", "committed"])
def test_the_worker_is_killed_at_every_step_of_its_recovery(
    first_at: str, record_figures: RecordFigures
) -> None:
    uid, words, lives = make_uid(), list[str](), False
    with TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid)]).stop()
        while not lives:
            words.append(f"word{len(words)}")
            enter_one_of_each(system, uid, words[-1])
            system.start_stepping_worker(die_on=first_at, ready=False).await_end()
            recovering = system.start_stepping_worker(die_at=len(words), ready=False)
            lives = recovering.lives_until(partial(is_recovered, system, uid, 2 * len(words)))
            if not lives:
                assert system.start_stepping_worker().lives_until(
                    partial(is_recovered, system, uid, 2 * len(words))
                )
            system.workers[-1].kill()

        assert len(words) > 4, system.steps
        assert_all_of_each(system, uid, words)
        record_figures(
            1,
            f"{FAULT} {first_at!r}, and at every step of its recovery",
            steps=len(words) - 1,
            effects=2 * len(words),
        )


def kill_in_the_middle(system: TestSystem, uid: str, moments: random.Random) -> tuple[int, str]:
    """Kill the worker during work; return the number of unfinished entries and the first of
    them.
    """
    time.sleep(moments.uniform(0, 0.2))
    wait_for(lambda: system.client.unacknowledged(uid), "something is in flight")
    time.sleep(moments.uniform(0, 0.01))
    system.workers[-1].kill()
    first = system.client.redis.xrange(input_of(uid), count=1)
    return system.client.unacknowledged(uid), first[0][0].decode() if first else ""


def seconds_until_done(system: TestSystem, uid: str, ident: str) -> float:
    began = time.monotonic()
    system.client.await_done(uid, ident or "0-1")
    return time.monotonic() - began


@pytest.mark.parametrize(
    ("kills", "writes"),
    [(5, 2_000), pytest.param(50, 20_000, marks=[pytest.mark.slow, pytest.mark.timeout(300)])],
)
def test_the_worker_is_killed_at_random_moments_under_load(
    kills: int, writes: int, record_figures: RecordFigures
) -> None:
    uid, moments, unfinished, resumed = (
        make_uid(),
        random.Random(20_000),
        list[int](),
        list[float](),
    )
    everything = {"log_length": 1_000_000}  # so that no result is trimmed from the log
    with TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid)], limits=everything)
        with WriteLoad(system, uid, writes, pause_s=0.2, goes_on=True) as load:
            for number in range(kills):
                in_flight, first = kill_in_the_middle(system, uid, moments)
                unfinished.append(in_flight)
                system.start_worker(limits=everything, ready=False)
                resumed += (
                    [seconds_until_done(system, uid, first)] if number % 3 else []
                )  # otherwise it is killed during its recovery

        assert_invariants(system, uid, load.texts)
        assert {
            said.input for said in system.client.log(uid) if said.sender == "memory_write"
        } == set(load.entered)
        assert any(unfinished), "no kill was in the middle: whatever was under way, was done"
        assert median(resumed) < 8, "2 s on a machine that does nothing else"
        record_figures(
            1,
            f"{FAULT} at random moments",
            kills=kills,
            messages=len(load.texts),
            in_flight=sum(unfinished),
            effects=len(load.texts),
            resumed_mostly_within_s=median(resumed),
            at_worst_s=max(resumed),
        )
        assert system.workers[-1].stop() == 0
