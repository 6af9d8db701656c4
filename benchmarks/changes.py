"""Measure what the change feed, receipts, policies or a view cost: one worker, and two pipelines
that take turns.

.venv/bin/python benchmarks/changes.py [--of feed] [--rounds 20] [--messages 10000]

The store of one pipeline has a feed, or with `--of policies` five policies that match nothing, or
with `--of views` a view of which each record becomes a member; the messages are writes. With
`--of receipts`, the search of one pipeline leaves receipts; the messages are searches. Both have
the yardstick's bundle. A round sends messages to each and waits until their entries are
acknowledged. The ratios compare neighboring rounds.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.pipelines import make_messages, make_writes
from benchmarks.support.blocking import BlockingConnection
from benchmarks.support.bundle import RULES, make_bundle
from benchmarks.support.harness import make_parser, stop_all, temporary_bus, write_result
from memrelay.bus.client.resp import pack
from memrelay.bus.client.url import Address
from memrelay.bus.keys import input_key
from memrelay.cli.logs import configure_logging
from memrelay.cli.process import tune_runtime
from memrelay.memory.control.catalog import Catalog
from memrelay.pipelines.check import check
from memrelay.worker.service import Worker, WorkerOptions

PIPELINES = ("off", "on")
FEED, RECEIPTS, POLICIES, VIEWS = "feed", "receipts", "policies", "views"
VIEW = {"name": "last", "per": "source", "show": {"top": {"by": "created_at"}}}


async def serve(socket: str, root: Path, of: str) -> None:
    """Deploy both pipelines and serve them until the process is killed."""
    async with Catalog(root) as catalog:
        for uid in PIPELINES:
            # Not a built-in store, which always has a feed.
            text = orjson.dumps(make_bundle(uid)).replace(b"/memories", b"/notes")
            changed = orjson.loads(text)
            for agent in changed["agents"]:
                agent["receipts"] = (uid, of) == ("on", RECEIPTS)
            store: dict[str, Any] = {"memory_id": f"instances/{uid}/notes"}
            store["changes"] = (uid, of) == ("on", FEED)
            if (uid, of) == ("on", POLICIES):
                store["policies"] = RULES
            if (uid, of) == ("on", VIEWS):
                store["views"] = [VIEW]
            bundle = check(changed | {"stores": [store]}).bundle
            assert bundle is not None
            now_ms = time.time_ns() // 1_000_000
            await catalog.deploy(uid, bundle.name, bundle.hash, bundle.source, now_ms)
    tune_runtime()
    await Worker(WorkerOptions(Address(path=socket), root)).run()


def make_searches(uids: list[str], count: int) -> bytes:
    """Return one packed MULTI with searches for one record or a few."""
    return make_messages(uids, [f"/search record {number}" for number in range(count)])


def drain(
    connection: BlockingConnection,
    worker: int,
    uid: str,
    count: int,
    make: Callable[[list[str], int], bytes] = make_writes,
) -> dict[str, float]:
    """Send messages, and return their rate and the worker's processor time per message, in µs."""
    # In parts, as they would arrive: one MULTI with all of them would stop the bus.
    parts = [make([uid], 1000) for _ in range(count // 1000)]
    cpu_s, started_s = _processor_s(worker), time.perf_counter()
    for packed in parts:
        connection.send(packed, 1002)
    while connection.send(pack("XLEN", input_key(uid)), 1):
        time.sleep(0.002)
    took_s = time.perf_counter() - started_s
    return {"rate": count / took_s, "cpu": 1e6 * (_processor_s(worker) - cpu_s) / count}


def _processor_s(pid: int) -> float:
    """Return the processor time of all threads of a process. Linux counts it in ns there."""
    files = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(file.read_text().split()[0]) for file in files) / 1e9


def measure(rounds: int, messages: int, of: str) -> list[dict[str, dict[str, float]]]:
    """Return what each round measured, by pipeline."""
    with temporary_bus("changes") as (folder, server):
        socket = str(server.socket_path)
        worker = subprocess.Popen(
            [sys.executable, __file__, "serve", socket, folder / "memory", of]
        )
        try:
            connection = BlockingConnection(socket)
            for uid in PIPELINES:
                drain(connection, worker.pid, uid, 2000)
            make = make_searches if of == RECEIPTS else make_writes
            measured = []
            for number in range(rounds):
                order = PIPELINES if number % 2 else PIPELINES[::-1]
                measured.append(
                    {uid: drain(connection, worker.pid, uid, messages, make) for uid in order}
                )
            return measured
        finally:
            stop_all([worker])


def main() -> None:
    """Run the benchmark, or its worker."""
    if sys.argv[1:2] == ["serve"]:
        configure_logging("warning", "console")
        uvloop.run(serve(sys.argv[2], Path(sys.argv[3]), sys.argv[4]))
        return
    parser = make_parser(__doc__, rounds=20)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--of", choices=(FEED, RECEIPTS, POLICIES, VIEWS), default=FEED)
    given = parser.parse_args()
    rounds = measure(given.rounds, given.messages, given.of)
    result = {"rounds": rounds}
    for name, unit in (("rate", "messages/s"), ("cpu", "µs of processor time per message")):
        off, on = (statistics.median(one[uid][name] for one in rounds) for uid in PIPELINES)
        ratio = statistics.median(one["on"][name] / one["off"][name] for one in rounds)
        result[f"{name}_ratio"] = ratio
        print(f"{unit}: {off:,.1f} off, {on:,.1f} on, ratio {ratio:.3f}")
    write_result(result, given.json)


if __name__ == "__main__":
    main()
