"""usage: rest.py [--rounds N] [--seconds S] [--json FILE]. Compare records over REST with a plain
service.

Both services have a full-text index and write to disk before they answer. Memrelay is `memrelay
web` and a worker, and a call goes over the bus and back. The plain service
(benchmarks/support/plain_rest.py) is one process.

Each round measures 1,000 reads and 500 writes per second at a fixed rate, the maximum rate over 64
connections, and single requests. The last step measures a call over the bus alone, and the same
operation on an embedded store.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.support.bundle import make_bundle
from benchmarks.support.harness import (
    make_parser,
    start_memrelay_processes,
    start_peer,
    stop_all,
    temporary_bus,
    write_result,
)
from benchmarks.support.load import Load
from benchmarks.support.paced import one_by_one, paced
from memrelay import open_store
from memrelay.bus.client.url import Address
from memrelay.bus.request import NewCall, Requester

UID = "bench"
PATH = f"/v1/pipelines/{UID}/records"
CONTENT = "record 42 of a store that remembers what was said about gardens, rivers and trains"
PACES = {"read": 1000.0, "write": 500.0}
CALLS = 200
Figures = dict[str, float]


class Service:
    """A service, its processes and its two requests."""

    def __init__(self, name: str, processes: list[subprocess.Popen[str]], port: int) -> None:
        """Create the record that the read request returns."""
        self.name, self.processes, self.port = name, processes, port
        body = json.dumps({"content": CONTENT}).encode()
        self.write = (
            f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        ).encode() + body
        self.guid = json.loads(_request(port, self.write))["guid"]
        self.read = f"GET {PATH}/{self.guid} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()

    def measure(self, kind: str, seconds: float) -> Figures:
        """Measure one round of one kind of request."""
        request = self.read if kind == "read" else self.write
        load = Load(self.port, request, 64)
        counted = load.run(seconds)
        load.close()
        times = asyncio.run(paced(self.port, request, PACES[kind], seconds))
        single = one_by_one(self.port, request, CALLS)
        return {
            "rate": counted.answers / counted.seconds,
            "paced_p50_ms": 1e3 * _quantile(times, 0.5),
            "paced_p99_ms": 1e3 * _quantile(times, 0.99),
            "single_p50_ms": 1e3 * _quantile(single, 0.5),
        }


def _quantile(times: list[float], share: float) -> float:
    return times[min(len(times) - 1, int(share * len(times)))]


def _request(port: int, request: bytes) -> bytes:
    async def send() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        body = await reader.readexactly(
            int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
        )
        writer.close()
        return body

    return asyncio.run(send())


def start_plain(folder: Path) -> Service:
    """Start the plain service."""
    process, port = start_peer("plain_rest.py", folder / "plain.db")
    return Service("plain", [process], port)


def start_memrelay(folder: Path, socket: Path) -> Service:
    """Start a worker and `memrelay web`."""
    return Service(
        "memrelay", *start_memrelay_processes(folder, socket, make_bundle(UID), ["worker", "web"])
    )


async def measure_bus_calls(socket: Path, guid: str) -> Figures:
    """Return the p50 of a bus call in milliseconds, from a process on the bus."""
    async with Requester(Address(path=str(socket))) as requester:
        calls = {
            "read": NewCall(
                UID, "records.get", json.dumps({"guid": guid}).encode(), False, actor="bench"
            ),
            "write": NewCall(
                UID,
                "records.create",
                json.dumps({"content": CONTENT}).encode(),
                True,
                actor="bench",
            ),
        }
        found = {}
        for kind, call in calls.items():
            times = []
            for _ in range(CALLS):
                started_s = time.perf_counter()
                answer = await requester.call(call, 10)
                times.append(time.perf_counter() - started_s)
                assert "output" in answer, answer
            found[kind] = 1e3 * statistics.median(times)
        return found


def measure_embedded_store(folder: Path) -> Figures:
    """Return the p50 of the same operations on an embedded store, in milliseconds. Each write is a
    transaction with fsync."""
    with open_store(str(folder / "own.db")) as store:
        guid = store.records.create(CONTENT).guid
        calls: dict[str, Callable[[], Any]] = {
            "read": lambda: store.records.get(guid),
            "write": lambda: store.records.create(CONTENT),
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


def run_rounds(
    services: list[Service], rounds: int, seconds: float
) -> dict[str, dict[str, list[Figures]]]:
    """Return the results of every round by kind and service. The services take turns."""
    found: dict[str, dict[str, list[Figures]]] = {
        kind: {one.name: [] for one in services} for kind in PACES
    }
    for number in range(rounds):
        for kind in PACES:
            for one in services if number % 2 else services[::-1]:
                found[kind][one.name].append(one.measure(kind, seconds))
    return found


def report(
    rounds: dict[str, dict[str, list[Figures]]], bus: Figures, embedded: Figures
) -> dict[str, Any]:
    """Print and return the medians."""
    result: dict[str, Any] = {
        "cores": os.cpu_count(),
        "rounds": rounds,
        "over_the_bus_ms": bus,
        "by_itself_ms": embedded,
    }
    for kind, services in rounds.items():
        for name, figures in services.items():
            medians = {
                figure: statistics.median(one[figure] for one in figures) for figure in figures[0]
            }
            result[f"{kind} {name}"] = medians
            print(
                f"{kind:5} {name:8} maximum {medians['rate']:7,.0f}/s; "
                f"at {PACES[kind]:,.0f}/s p50 {medians['paced_p50_ms']:.2f} ms, "
                f"p99 {medians['paced_p99_ms']:.2f} ms; "
                f"single p50 {medians['single_p50_ms']:.2f} ms"
            )
        print(
            f"{kind:5} over the bus p50 {bus[kind]:.2f} ms, "
            f"on an embedded store {embedded[kind]:.2f} ms"
        )
    return result


def main() -> None:
    """Run the benchmark."""
    parser = make_parser(__doc__, rounds=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    given = parser.parse_args()
    services: list[Service] = []
    with temporary_bus("rest") as (folder, bus):
        try:
            services += [start_plain(folder), start_memrelay(folder, bus.socket_path)]
            rounds = run_rounds(services, given.rounds, given.seconds)
            result = report(
                rounds,
                asyncio.run(measure_bus_calls(bus.socket_path, services[1].guid)),
                measure_embedded_store(folder),
            )
        finally:
            stop_all([process for one in services for process in one.processes])
    write_result(result, given.json)


if __name__ == "__main__":
    main()
