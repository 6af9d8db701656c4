"""Row 1: kill -9 of the worker, at every step of a batch and at random moments under load."""

import random
import time
from functools import partial
from statistics import median

import pytest

from tests.faults.conftest import Tell
from tests.faults.feeder import Feeder
from tests.faults.promises import assert_one_change_for_each_write, assert_promises, left
from tests.support.bundles import make_bundle, make_uid
from tests.support.client import input_of, make_envelope
from tests.support.house import House
from tests.support.waiting import wait_for
from tests.support.worker import arm

FAULT = "kill -9 of the worker"


def is_done(house: House, uid: str, written: int) -> bool:
    return len(house.contents(uid)) == written and not left(house, uid)


def is_recovered(house: House, uid: str, written: int) -> bool:
    return is_done(house, uid, written) and house.steps[-1] == "recovered"


def enter_one_of_each(house: House, uid: str, word: str) -> None:
    """Send in one batch: a write, a write with a producer's ID, its duplicate, and an invalid
    entry.
    """
    writes = [
        {"data": make_envelope(f"/write {word}")},
        *[{"data": make_envelope(f"/write {word} named"), "id": word}] * 2,
    ]
    with house.client.redis.pipeline(transaction=True) as pipe:
        for fields in (*writes, {"data": b"broken"}):
            pipe.xadd(input_of(uid), {"swarm": "chat"} | fields)
        pipe.execute()


def assert_all_of_each(house: House, uid: str, words: list[str]) -> None:
    letters = house.dead_letters(uid)
    assert [letter.data for letter in letters] == [b"broken"] * len(words)
    assert len({letter.id for letter in letters}) == len(words)
    assert_promises(
        house, uid, [text for word in words for text in (word, f"{word} named")], dead=len(words)
    )
    assert_one_change_for_each_write(house, uid)


def test_the_worker_is_killed_at_every_step_of_a_batch(tell: Tell) -> None:
    uid, words = make_uid(), list[str]()
    with House() as house:
        worker = house.start_stepping_worker(armed=False, die_at=1, bundles=[make_bundle(uid)])
        while True:
            arm(worker)
            words.append(f"word{len(words)}")
            enter_one_of_each(house, uid, words[-1])
            if worker.lives_until(partial(is_done, house, uid, 2 * len(words))):
                break
            worker = house.start_stepping_worker(armed=False, die_at=len(words) + 1)
            assert worker.lives_until(partial(is_done, house, uid, 2 * len(words)))

        assert len(words) > 5, house.steps
        assert {
            "before commit",
            "committed",
            "dead letters stored",
            "before sending",
            "sent",
        } <= set(house.steps)
        assert_all_of_each(house, uid, words)
        tell(1, f"{FAULT} at every step of a batch", steps=len(words) - 1, effects=2 * len(words))


@pytest.mark.slow
@pytest.mark.parametrize("first_at", ["before commit", "committed"])
def test_the_worker_is_killed_at_every_step_of_its_recovery(first_at: str, tell: Tell) -> None:
    uid, words, lives = make_uid(), list[str](), False
    with House() as house:
        house.start_worker(bundles=[make_bundle(uid)]).stop()
        while not lives:
            words.append(f"word{len(words)}")
            enter_one_of_each(house, uid, words[-1])
            house.start_stepping_worker(die_on=first_at, ready=False).await_end()
            recovering = house.start_stepping_worker(die_at=len(words), ready=False)
            lives = recovering.lives_until(partial(is_recovered, house, uid, 2 * len(words)))
            if not lives:
                assert house.start_stepping_worker().lives_until(
                    partial(is_recovered, house, uid, 2 * len(words))
                )
            house.workers[-1].kill()

        assert len(words) > 4, house.steps
        assert_all_of_each(house, uid, words)
        tell(
            1,
            f"{FAULT} {first_at!r}, and at every step of its recovery",
            steps=len(words) - 1,
            effects=2 * len(words),
        )


def kill_in_the_middle(house: House, uid: str, moments: random.Random) -> tuple[int, str]:
    """Kill the worker during work; return the number of unfinished entries and the first of
    them.
    """
    time.sleep(moments.uniform(0, 0.2))
    wait_for(lambda: house.client.unacknowledged(uid), "something is in flight")
    time.sleep(moments.uniform(0, 0.01))
    house.workers[-1].kill()
    first = house.client.redis.xrange(input_of(uid), count=1)
    return house.client.unacknowledged(uid), first[0][0].decode() if first else ""


def seconds_until_done(house: House, uid: str, ident: str) -> float:
    began = time.monotonic()
    house.client.await_done(uid, ident or "0-1")
    return time.monotonic() - began


@pytest.mark.parametrize(
    ("kills", "writes"),
    [(5, 2_000), pytest.param(50, 20_000, marks=[pytest.mark.slow, pytest.mark.timeout(300)])],
)
def test_the_worker_is_killed_at_random_moments_under_load(
    kills: int, writes: int, tell: Tell
) -> None:
    uid, moments, unfinished, resumed = (
        make_uid(),
        random.Random(20_000),
        list[int](),
        list[float](),
    )
    everything = {"log_length": 1_000_000}  # so that no result is trimmed from the log
    with House() as house:
        house.start_worker(bundles=[make_bundle(uid)], limits=everything)
        with Feeder(house, uid, writes, pause_s=0.2, goes_on=True) as feeder:
            for number in range(kills):
                in_flight, first = kill_in_the_middle(house, uid, moments)
                unfinished.append(in_flight)
                house.start_worker(limits=everything, ready=False)
                resumed += (
                    [seconds_until_done(house, uid, first)] if number % 3 else []
                )  # otherwise it is killed during its recovery

        assert_promises(house, uid, feeder.texts)
        assert {
            said.input for said in house.client.log(uid) if said.sender == "memory_write"
        } == set(feeder.entered)
        assert any(unfinished), "no kill was in the middle: whatever was under way, was done"
        assert median(resumed) < 8, "2 s on a machine that does nothing else"
        tell(
            1,
            f"{FAULT} at random moments",
            kills=kills,
            messages=len(feeder.texts),
            in_flight=sum(unfinished),
            effects=len(feeder.texts),
            resumed_mostly_within_s=median(resumed),
            at_worst_s=max(resumed),
        )
        assert house.workers[-1].stop() == 0
