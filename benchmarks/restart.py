"""usage: restart.py [--pipelines N] [--stop kill|term] [--waiting all|one] [--idle S]
[--rounds N] [--json FILE]. Measure how long a restarted worker needs for its answers.

Each of N pipelines has one store with a record. After S seconds without messages, the worker is
killed or stopped. Then one message
waits for every pipeline, or only for one, and the worker starts again. Prints the seconds from the
start of the process to the first and the last answer. With `--waiting one`, the last pipeline gets
a message once the worker reports that it has recovered everything.
"""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.support.blocking import BlockingConnection
from benchmarks.support.bundle import make_bundle
from benchmarks.support.harness import CHECKOUT, UNLIMITED, make_parser, temporary_bus, write_result
from memrelay.bus.client.resp import pack
from memrelay.bus.keys import input_key
from memrelay.memory.control.catalog import Catalog
from memrelay.pipelines.check import check

# The longest wait for one more answer.
SILENT_S = 120.0


def deploy(root: Path, uids: Sequence[str]) -> None:
    """Write the bundles into the catalog in one transaction."""
    asyncio.run(_create_catalog(root))
    with sqlite3.connect(root / "system.db") as database:
        for uid in uids:
            bundle = check(make_bundle(uid)).bundle
            assert bundle is not None
            row = (uid, bundle.name, bundle.hash, 1, time.time_ns() // 1_000_000)
            database.execute("INSERT INTO bundles VALUES (?, ?)", (bundle.hash, bundle.source))
            for table in ("versions", "pipelines"):
                columns = "uid, name, hash, version, deployed_at"
                database.execute(f"INSERT INTO {table} ({columns}) VALUES (?, ?, ?, ?, ?)", row)
    database.close()


async def _create_catalog(root: Path) -> None:
    async with Catalog(root):
        """Opening creates the file."""


def start_worker(folder: Path, socket: str) -> subprocess.Popen[bytes]:
    """Start `memrelay worker`. Its log goes to a file in the folder."""
    settings = os.environ | UNLIMITED
    settings["MEMRELAY_BUS__URL"] = f"unix://{socket}"
    settings["MEMRELAY_MEMORY__ROOT"] = str(folder / "memory")
    command = [sys.executable, "-m", "memrelay.cli.main", "worker"]
    with (folder / "worker.log").open("ab") as log:
        return subprocess.Popen(command, env=settings, cwd=CHECKOUT, stdout=log, stderr=log)


def request_writes(connection: BlockingConnection, uids: Sequence[str]) -> None:
    """Append one write to the input of each pipeline."""
    part = {"username": "user", "text": "/write a note about gardens", "type": "text/plain"}
    data = orjson.dumps({"from": "User", "id": "user", "args": [part]})
    commands = [pack("XADD", input_key(uid), "*", "swarm", "chat", "data", data) for uid in uids]
    connection.send(b"".join(commands), len(commands))


class Answers:
    """Follows the answers of all pipelines on their channels."""

    def __init__(self, socket: str) -> None:
        """Subscribe to all swarms."""
        self._connection = BlockingConnection(socket)
        self._connection.send(pack("PSUBSCRIBE", "swarm:*"), 1)

    def wait(self, uids: Sequence[str], sender: str = "memory_write") -> tuple[float, float]:
        """Return the times of the first and the last pipeline's answer (time.perf_counter)."""
        wanted = f'"from":"{sender}"'.encode()
        channels = {f"swarm:{{{uid}}}:chat".encode() for uid in uids}
        times: list[float] = []
        while channels:
            _, _, channel, payload = self._connection.receive(SILENT_S)
            if channel in channels and wanted in payload:
                channels.discard(channel)
                times.append(time.perf_counter())
        return times[0], times[-1]


def wait_until_recovered(connection: BlockingConnection, count: int) -> None:
    """Wait until the worker reports that it serves all pipelines and recovers none."""
    while True:
        names = connection.send(pack("ZREVRANGE", "memrelay:{workers}", 0, 0), 1)
        report: Any = connection.send(pack("GET", b"memrelay:{workers}:" + names[0]), 1)
        pipelines = orjson.loads(report)["pipelines"] if report else {}
        if len(pipelines) == count and not any(one["paused"] for one in pipelines.values()):
            return
        time.sleep(0.05)


def measure(count: int, stop: str, waiting: str, idle_s: float) -> dict[str, float]:
    """Return the seconds to the first and the last answer of one restart."""
    uids = [f"p{number:05}" for number in range(count)]
    with temporary_bus("restart") as (folder, server):
        socket = str(server.socket_path)
        connection, answers = BlockingConnection(socket), Answers(socket)
        deploy(folder / "memory", uids)
        worker = start_worker(folder, socket)
        try:
            request_writes(connection, uids)
            answers.wait(uids)
            time.sleep(idle_s)
            worker.send_signal(signal.SIGKILL if stop == "kill" else signal.SIGTERM)
            worker.wait(600)
            request_writes(connection, uids if waiting == "all" else uids[-1:])
            started_s = time.perf_counter()
            worker = start_worker(folder, socket)
            first_s, last_s = answers.wait(uids if waiting == "all" else uids[-1:])
            if waiting == "one":
                wait_until_recovered(connection, count)
                request_writes(connection, uids[-2:-1])
                _, last_s = answers.wait(uids[-2:-1])
        finally:
            worker.kill()
            worker.wait()
    return {"first_s": first_s - started_s, "last_s": last_s - started_s}


def main() -> None:
    """Run the benchmark."""
    parser = make_parser(__doc__, rounds=1)
    parser.add_argument("--pipelines", type=int, default=1000)
    parser.add_argument("--stop", choices=("kill", "term"), default="kill")
    parser.add_argument("--waiting", choices=("all", "one"), default="all")
    parser.add_argument("--idle", type=float, default=20)
    given = parser.parse_args()
    rounds = []
    for _ in range(given.rounds):
        rounds.append(measure(given.pipelines, given.stop, given.waiting, given.idle))
        print(
            f"{given.pipelines} pipelines, {given.stop}, {given.waiting} waiting: first answer "
            f"after {rounds[-1]['first_s']:.2f} s, last after {rounds[-1]['last_s']:.2f} s",
            flush=True,
        )
    write_result({"cores": os.cpu_count(), "rounds": rounds}, given.json)


if __name__ == "__main__":
    main()
