"""usage: rest.py [--rounds N] [--seconds S] [--json FILE]. Records over REST, beside a plain
aiohttp and aiosqlite service.

Both keep what is written on disk before they answer, with a full-text index. Ours are `memrelay
web` and a worker, and a call
goes over the bus and back; the plain one (benchmarks/plain_rest.py) is one process. In each round:
1,000 reads and 500 writes a
second, at that pace; as many as there are answers for, over 64 connections; and one after the
other. Then what a call costs
over the bus alone, beside the same operation on a store of one's own.
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
from benchmarks.support.load import Load
from benchmarks.support.paced import one_by_one, paced
from benchmarks.support.harness import bus_of_its_own, end, keep, options, start_peer, start_product
from memrelay.bus.client.url import Address
from memrelay.bus.request import NewCall, Requester
from memrelay.cli.embedded import open_store

UID = "bench"
PATH = f"/v1/pipelines/{UID}/records"
CONTENT = "record 42 of a store that remembers what was said about gardens, rivers and trains"
PACES = {"read": 1000.0, "write": 500.0}
CALLS = 200
Figures = dict[str, float]


class Served:
    """A service, and its two requests."""

    def __init__(self, name: str, processes: list[subprocess.Popen[str]], port: int) -> None:
        """It listens on `port`; a record is made that is read."""
        self.name, self.processes, self.port = name, processes, port
        body = json.dumps({"content": CONTENT}).encode()
        self.write = (
            f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        ).encode() + body
        self.guid = json.loads(_ask(port, self.write))["guid"]
        self.read = f"GET {PATH}/{self.guid} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()

    def measure(self, kind: str, seconds: float) -> Figures:
        """One round of one kind."""
        request = self.read if kind == "read" else self.write
        load = Load(self.port, request, 64)
        counted = load.run(seconds)
        load.close()
        times = asyncio.run(paced(self.port, request, PACES[kind], seconds))
        single = one_by_one(self.port, request, CALLS)
        return {
            "rate": counted.answers / counted.seconds,
            "paced_p50_ms": 1e3 * _at(times, 0.5),
            "paced_p99_ms": 1e3 * _at(times, 0.99),
            "single_p50_ms": 1e3 * _at(single, 0.5),
        }


def _at(times: list[float], share: float) -> float:
    return times[min(len(times) - 1, int(share * len(times)))]


def _ask(port: int, request: bytes) -> bytes:
    async def whole() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        body = await reader.readexactly(
            int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
        )
        writer.close()
        return body

    return asyncio.run(whole())


def start_plain(folder: Path) -> Served:
    """The peer."""
    process, port = start_peer("plain_rest.py", folder / "plain.db")
    return Served("plain", [process], port)


def start_ours(folder: Path, socket: Path) -> Served:
    """A worker, and `memrelay web`."""
    return Served("memrelay", *start_product(folder, socket, make_bundle(UID), ["worker", "web"]))


async def over_the_bus(socket: Path, guid: str) -> Figures:
    """p50 of a call's way, in ms, from a process that stands on the bus itself."""
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
                began = time.perf_counter()
                answer = await requester.call(call, 10)
                times.append(time.perf_counter() - began)
                assert "output" in answer, answer
            found[kind] = 1e3 * statistics.median(times)
        return found


def by_itself(folder: Path) -> Figures:
    """p50 of the same operations on a store of one's own, in ms: a transaction and its sync for
    each write."""
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
                began = time.perf_counter()
                call()
                times.append(time.perf_counter() - began)
            found[kind] = 1e3 * statistics.median(times)
        return found


def run_rounds(
    services: list[Served], rounds: int, seconds: float
) -> dict[str, dict[str, list[Figures]]]:
    """By kind and service, every round's figures; the services take turns."""
    found: dict[str, dict[str, list[Figures]]] = {
        kind: {one.name: [] for one in services} for kind in PACES
    }
    for number in range(rounds):
        for kind in PACES:
            for one in services if number % 2 else services[::-1]:
                found[kind][one.name].append(one.measure(kind, seconds))
    return found


def report(
    rounds: dict[str, dict[str, list[Figures]]], bus: Figures, own: Figures
) -> dict[str, Any]:
    """Medians, printed and returned."""
    result: dict[str, Any] = {
        "cores": os.cpu_count(),
        "rounds": rounds,
        "over_the_bus_ms": bus,
        "by_itself_ms": own,
    }
    for kind, services in rounds.items():
        for name, figures in services.items():
            medians = {
                figure: statistics.median(one[figure] for one in figures) for figure in figures[0]
            }
            result[f"{kind} {name}"] = medians
            print(
                f"{kind:5} {name:8} {medians['rate']:7,.0f} a second at most; at {PACES[kind]:,.0f} a second p50 "
                f"{medians['paced_p50_ms']:.2f} ms, p99 {medians['paced_p99_ms']:.2f} ms; alone p50 "
                f"{medians['single_p50_ms']:.2f} ms"
            )
        print(
            f"{kind:5} over the bus p50 {bus[kind]:.2f} ms, the operation by itself {own[kind]:.2f} ms"
        )
    return result


def main() -> None:
    """The command."""
    parser = options(__doc__, rounds=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    given = parser.parse_args()
    services: list[Served] = []
    with bus_of_its_own("rest") as (folder, bus):
        try:
            services += [start_plain(folder), start_ours(folder, bus.socket_path)]
            rounds = run_rounds(services, given.rounds, given.seconds)
            result = report(
                rounds,
                asyncio.run(over_the_bus(bus.socket_path, services[1].guid)),
                by_itself(folder),
            )
        finally:
            end([process for one in services for process in one.processes])
    keep(result, given.json)


if __name__ == "__main__":
    main()
