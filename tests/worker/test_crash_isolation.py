"""An input that may have crashed the process runs alone. A hanging one delays others briefly."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from random import Random

from memrelay.worker.run.crash_isolation import CrashIsolation

THREADS, TURNS = 4, 300


def test_nothing_runs_next_to_an_isolated_input() -> None:
    isolation, running, seen = CrashIsolation(), list[str](), set[tuple[str, ...]]()

    def take_turns(seed: int) -> None:
        random = Random(seed)
        for _ in range(TURNS):
            name, enter = random.choice(
                [("alone", isolation.alone), *2 * [("concurrent", isolation.concurrent)]]
            )
            with enter():
                running.append(name)
                time.sleep(0.000_1)  # let the others arrive
                seen.add(tuple(sorted(running)))
                running.remove(name)

    with ThreadPoolExecutor(THREADS) as pool:
        for turns in [pool.submit(take_turns, seed) for seed in range(THREADS)]:
            turns.result()

    assert {("alone",), ("concurrent", "concurrent")} <= seen
    assert all(len(names) == 1 for names in seen if "alone" in names)


def test_a_hanging_input_delays_others_for_a_bounded_time() -> None:
    isolation = CrashIsolation()

    def run(enter: Callable[[], AbstractContextManager[None]]) -> None:
        with enter():
            pass

    with isolation.alone(), ThreadPoolExecutor(THREADS) as pool:
        others = [pool.submit(run, enter) for enter in 2 * (isolation.concurrent, isolation.alone)]
        assert not wait(others, 30).not_done
    run(isolation.alone)


def test_an_exception_ends_isolation() -> None:
    isolation = CrashIsolation()
    for enter in (isolation.alone, isolation.concurrent):
        try:
            with enter():
                raise ValueError
        except ValueError:
            pass
    with isolation.alone():
        pass
