"""usage: .venv/bin/python benchmarks/replicas.py [--appends N]

Measures the cost of `bus.min_replicas: 1`: appends with and without it, in turn, on one primary
with two replicas on this machine. The straight line is XADD over redis-py's blocking client.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from memrelay.bus.client.url import Address, parse
from memrelay.bus.streams.entry import NewEntry
from memrelay.bus.streams.ingress import Ingress, IngressLimits
from tests.support.client import make_envelope
from tests.support.replicated_bus import SentinelBus

ROUNDS = 5
LIMITS = IngressLimits(backlog=10**9, backlog_bytes=2**50)
DATA = make_envelope("/write The meeting is at 3pm")


async def time_appends(address: Address, count: int) -> list[float]:
    """Return the milliseconds of appends, one after another."""
    times = []
    async with Ingress(address, LIMITS) as ingress:
        for _ in range(count):
            began = time.perf_counter()
            await ingress.append(NewEntry("bench", DATA, swarm="chat"))
            times.append((time.perf_counter() - began) * 1000)
    return times


async def rate_of_appends(address: Address, count: int) -> float:
    """Return appends per second, with 100 under way at once."""
    async with Ingress(address, LIMITS) as ingress:
        began = time.perf_counter()
        for _ in range(count // 100):
            entries = [NewEntry("bench", DATA, swarm="chat") for _ in range(100)]
            await asyncio.gather(*map(ingress.append, entries))
        return count / (time.perf_counter() - began)


def time_straight_line(bus: SentinelBus, count: int) -> list[float]:
    times = []
    with bus.primary.client() as client:
        for _ in range(count):
            began = time.perf_counter()
            client.xadd("pipeline:{bench}:in", {"swarm": "chat", "data": DATA})
            times.append((time.perf_counter() - began) * 1000)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--appends", type=int, default=2000)
    count: int = parser.parse_args().appends
    with tempfile.TemporaryDirectory() as folder, SentinelBus(Path(folder) / "bus") as bus:
        found: dict[str, list[float]] = {"straight line": [], "0": [], "1": []}
        rates: dict[str, list[float]] = {"0": [], "1": []}
        for _ in range(ROUNDS):
            found["straight line"] += time_straight_line(bus, count // 2)
            for replicas in (0, 1):
                address = replace(parse(bus.url), min_replicas=replicas)
                found[str(replicas)] += asyncio.run(time_appends(address, count // 2))
                rates[str(replicas)].append(asyncio.run(rate_of_appends(address, count * 5)))
    for name, times in found.items():
        p99 = statistics.quantiles(times, n=100)[98]
        print(f"{name:>13}: p50 {statistics.median(times):.3f} ms, p99 {p99:.3f} ms")
    for name, of_round in rates.items():
        print(f"min_replicas {name}: {statistics.median(of_round):,.0f} appends per second")


if __name__ == "__main__":
    main()
