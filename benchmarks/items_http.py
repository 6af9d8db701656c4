"""usage: items_http.py [--rounds N] [--json FILE]. Compare get and put of Robutler's paths with the
operations alone.

Each round sends single requests over HTTP, calls the same operations over the bus, and runs them on
an embedded store. HTTP get and put should take at most 1 and 2.5 ms longer than the operation.
"""

import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.support.bundle import make_bundle
from benchmarks.support.harness import (
    make_parser,
    start_memrelay_processes,
    stop_all,
    temporary_bus,
    write_result,
)
from benchmarks.support.paced import one_by_one
from memrelay import open_store
from memrelay.bus.client.url import Address
from memrelay.bus.request import NewCall, Requester

UID = "bench"
PATH = "/api/storage/memory/k"
AGENT = "a1"
VALUE = {"text": "an entry that remembers what was said about gardens, rivers and trains"}
PLACE: dict[str, Any] = {"agent": AGENT, "store": AGENT, "key": "k"}
TARGETS_MS = {"get": 1.0, "put": 2.5}
CALLS = 300
Figures = dict[str, float]


def make_requests() -> dict[str, bytes]:
    """Return the bytes of a put and a get."""
    body = json.dumps({"agentId": AGENT, "value": VALUE}).encode()
    head = (
        f"PUT {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    get = f"GET {PATH}?agentId={AGENT} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    return {"put": head.encode() + body, "get": get.encode()}


def measure_http(port: int) -> Figures:
    """Return the p50 of a request in milliseconds."""
    return {
        kind: 1e3 * statistics.median(one_by_one(port, request, CALLS))
        for kind, request in make_requests().items()
    }


async def measure_bus(socket: Path) -> Figures:
    """Return the p50 of a call over the bus in milliseconds."""
    put, get = json.dumps(PLACE | {"value": VALUE}).encode(), json.dumps(PLACE).encode()
    calls = {
        "put": NewCall(UID, "items.put", put, True, actor="bench"),
        "get": NewCall(UID, "items.get", get, False, actor="bench"),
    }
    async with Requester(Address(path=str(socket))) as requester:
        return {
            kind: await _time(partial(requester.call, call, 10)) for kind, call in calls.items()
        }


async def _time(call: Callable[[], Awaitable[Any]]) -> float:
    times = []
    for _ in range(CALLS):
        started_s = time.perf_counter()
        answer = await call()
        times.append(time.perf_counter() - started_s)
        assert "output" in answer, answer
    return 1e3 * statistics.median(times)


def measure_operation(file: Path) -> Figures:
    """Return the p50 of the operations on an embedded store in ms. A put waits for the disk."""
    with open_store(str(file)) as store:
        calls: dict[str, Callable[[], Any]] = {
            "put": lambda: store.items.put(**PLACE, value=VALUE),
            "get": lambda: store.items.get(**PLACE),
        }
        found = {}
        for kind, call in calls.items():
            times = []
            for _ in range(CALLS):
                started_s = time.perf_counter()
                call()
                times.append(time.perf_counter() - started_s)
            found[kind] = 1e3 * statistics.median(times)
        return found


def report(rounds: list[dict[str, Figures]]) -> dict[str, Any]:
    """Print and return the medians of the rounds."""
    result: dict[str, Any] = {"cores": os.cpu_count(), "rounds": rounds}
    for kind, target_ms in TARGETS_MS.items():
        http, bus, alone = (
            statistics.median(one[way][kind] for one in rounds)
            for way in ("http", "bus", "operation")
        )
        above = statistics.median(one["http"][kind] - one["operation"][kind] for one in rounds)
        result[kind] = {"http": http, "bus": bus, "operation": alone, "above": above}
        print(
            f"{kind} HTTP p50 {http:.2f} ms, over the bus {bus:.2f} ms, operation {alone:.2f} ms; "
            f"HTTP above the operation {above:.2f} ms (target {target_ms:g} ms)"
        )
    return result


def main() -> None:
    """Run the benchmark."""
    given = make_parser(__doc__, rounds=5).parse_args()
    with temporary_bus("items") as (folder, bus):
        processes, port = start_memrelay_processes(
            folder, bus.socket_path, make_bundle(UID), ["worker", "web"]
        )
        try:
            rounds = [
                {
                    "http": measure_http(port),
                    "bus": asyncio.run(measure_bus(bus.socket_path)),
                    "operation": measure_operation(folder / "own.db"),
                }
                for _ in range(given.rounds)
            ]
        finally:
            stop_all(processes)
    write_result(report(rounds), given.json)


if __name__ == "__main__":
    main()
