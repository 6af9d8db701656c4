"""usage: rehearsals.py [--inputs N] [--writes N] [--rounds N] [--json FILE]. Measure a pipeline
while another one of the same worker is rehearsed.

One pipeline keeps inputs. In each round, writes go to the other one, one after the other: alone,
while rehearsals of the first one run without a pause, and alone again. Prints the seconds of one
rehearsal, the 99th percentile of the time until the answer to a write in ms, and its ratio during
rehearsals to the mean of before and after. Goals: 10,000 inputs in 15 s, and a ratio of 1.5.
"""

import os
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.support.harness import make_parser, write_result
from tests.support.bundles import make_bundle
from tests.support.calls import call
from tests.support.client import make_envelope
from tests.support.system import TestSystem

REHEARSED, MEASURED = "p0", "p1"
TEXT = "/write the quick brown fox jumps over the lazy dog and then it sleeps for a hundred years"
PAUSE_S, POLL_S, APPENDED_TOGETHER = 0.005, 0.2, 1000


def send_inputs(system: TestSystem, count: int) -> None:
    """Send the inputs to rehearse, and wait until they have run."""
    entry: dict[Any, Any] = {"swarm": "chat", "data": make_envelope(TEXT)}
    for first in range(0, count, APPENDED_TOGETHER):
        pipe = system.client.redis.pipeline(transaction=False)
        for _ in range(min(APPENDED_TOGETHER, count - first)):
            pipe.xadd(f"pipeline:{{{REHEARSED}}}:in", entry)
        pipe.execute()
    system.client.await_quiet(REHEARSED)


def rehearse(system: TestSystem) -> dict[str, Any]:
    """Rehearse the deployed bundle, and return the report."""
    given = {"bundle": make_bundle(REHEARSED, inputs_days=7)}
    ident = call(system, REHEARSED, "rehearsals.create", given)["id"]
    while True:
        found: dict[str, Any] = call(system, REHEARSED, "rehearsals.get", {"id": ident})
        if found["status"] != "running":
            assert found["status"] == "done" and found["equal"], found["reason"]
            return found
        time.sleep(POLL_S)


@contextmanager
def rehearsing(system: TestSystem) -> Iterator[None]:
    """Run one rehearsal after the other."""
    stopped = Event()

    def work() -> None:
        while not stopped.is_set():
            rehearse(system)

    thread = Thread(target=work)
    thread.start()
    time.sleep(1.0)  # the stores are copied
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def find_p99(system: TestSystem, count: int) -> float:
    """Return the 99th percentile in ms of the time until the answer to a write."""
    waits = list[float]()
    for number in range(count):
        began_s = time.perf_counter()
        system.client.answer(MEASURED, f"/write note {number}")
        waits.append(time.perf_counter() - began_s)
        time.sleep(PAUSE_S)
    return statistics.quantiles(waits, n=100)[98] * 1000


def measure(system: TestSystem, writes: int) -> dict[str, float]:
    """Return the percentiles of one round."""
    before = find_p99(system, writes)
    with rehearsing(system):
        during = find_p99(system, writes)
    return {"before_ms": before, "during_ms": during, "after_ms": find_p99(system, writes)}


def main() -> None:
    """Run the benchmark."""
    parser = make_parser(__doc__, rounds=3)
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--writes", type=int, default=1_000)
    given = parser.parse_args()
    with TestSystem() as system:
        bundles = [make_bundle(REHEARSED, inputs_days=7), make_bundle(MEASURED)]
        system.start_worker(bundles=bundles, fresh=True)
        send_inputs(system, given.inputs)
        began_s = time.perf_counter()
        inputs = rehearse(system)["report"]["inputs"]
        took_s = time.perf_counter() - began_s
        print(f"{inputs['rehearsed']} inputs: {took_s:.1f} s", flush=True)
        find_p99(system, 100)
        rounds = list[dict[str, float]]()
        for _ in range(given.rounds):
            rounds.append(measure(system, given.writes))
            print(rounds[-1], flush=True)
    ratios = [2 * one["during_ms"] / (one["before_ms"] + one["after_ms"]) for one in rounds]
    print(f"p99 during rehearsals, relative to before and after: {statistics.median(ratios):.2f}")
    result = {"cores": os.cpu_count(), "seconds": took_s, "rounds": rounds, "ratios": ratios}
    write_result(result, given.json)


if __name__ == "__main__":
    main()
