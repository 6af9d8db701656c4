"""usage: .venv/bin/python benchmarks/plan.py [--pipelines N] [--seconds N] [--interval S]
[--json FILE]

Measures unit costs of many quiet pipelines with journals in PostgreSQL, and derives a plan for
1,000,000 pipelines with 100,000 messages per second. In the measurement, each pipeline gets one
message in 10 seconds, as in the plan. So every message opens the stores of its pipeline, is one
commit, and the stores rest afterwards. With --interval 5, the stores stay open.
"""

import argparse
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.pipelines import SERVE, count_messages, make_writes
from benchmarks.support.blocking import BlockingConnection
from benchmarks.support.harness import stop_all, temporary_bus, write_result
from memrelay.bus.client.resp import pack
from tests.support.postgres import Postgres

PIPELINES, RATE = 1_000_000, 100_000
# Part of a core or disk that a plan uses, and the size of a host.
SHARE, CORES, MEMORY_GB = 0.6, 16, 64
PARTS = "worker", "bus", "postgres"
# Pipelines of a small installation, which shows what a worker needs without pipelines.
FEW = 10
# Idle stores are closed after 6 seconds.
REST_S = 8
State = dict[str, float]
TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
DAY_S = 86_400


def cpu_s(pids: Iterable[int]) -> float:
    """Return the processor seconds of processes and of their children that have ended."""
    total = 0
    for pid in pids:
        with suppress(FileNotFoundError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[11:15]))
    return total / TICK


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE


class Installation:
    """A bus, PostgreSQL and a worker with pipelines."""

    def __init__(self, server: Postgres, folder: Path, bus: Any, uids: list[str]) -> None:
        self._server, self._bus_pid, self._uids = server, bus.pid, uids
        self.connection = BlockingConnection(str(bus.socket_path))
        words = [SERVE, bus.socket_path, folder / "memory", *uids]
        self.worker = subprocess.Popen(
            [sys.executable, *words, "--postgres", server.url("").rstrip("/")], text=True
        )

    def send(self, uids: list[str]) -> None:
        """Send one message to each pipeline."""
        self.connection.send(make_writes(uids, len(uids)), len(uids) + 2)

    def await_messages(self, count: int) -> None:
        """Wait until the logs have had so many messages."""
        deadline = time.monotonic() + 600
        while count_messages(self.connection, self._uids) < count:
            if time.monotonic() > deadline:
                raise TimeoutError("not every message was processed")
            time.sleep(0.2)

    def state(self) -> State:
        """Return processor seconds, and bytes in memory and on disk."""
        info = self.connection.send_all([pack("INFO", "memory")])[0].decode()
        used = next(line for line in info.splitlines() if line.startswith("used_memory:"))
        size = "SELECT sum(pg_database_size(oid)) FROM pg_database"
        log = "SELECT pg_current_wal_lsn() - '0/0'::pg_lsn"
        return {
            "worker cpu": cpu_s([self.worker.pid]),
            "bus cpu": cpu_s([self._bus_pid]),
            "postgres cpu": cpu_s(self._server.processes),
            "worker bytes": resident(self.worker.pid),
            "bus bytes": int(used.partition(":")[2]),
            "postgres bytes": int(self._server.query(size)[0][0]),
            "log bytes": int(self._server.query(log)[0][0]),
        }


def send_steadily(made: Installation, uids: list[str], seconds: float, interval_s: float) -> int:
    """Send one message to each pipeline in each interval, and return their number."""
    count, sent, part = len(uids), 0, max(1, int(len(uids) / interval_s / 10))
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        made.send([uids[(sent + number) % count] for number in range(part)])
        sent += part
        time.sleep(max(0.0, began + sent * interval_s / count - time.monotonic()))
    return sent


def observe(pipelines: int, seconds: float, interval_s: float) -> tuple[list[State], int]:
    """Return the states before the pipelines had a message, at rest, half of `seconds` later, and
    after `seconds` of messages, and the number of these.
    """
    uids = [f"p{number}" for number in range(pipelines)]
    with temporary_bus("plan") as (folder, bus), Postgres() as server:
        made = Installation(server, folder, bus, uids)
        try:
            empty = made.state()
            made.send(uids)
            made.await_messages(3 * pipelines)
            time.sleep(REST_S)
            idle = made.state()
            time.sleep(seconds / 2)
            rest = made.state()
            sent = send_steadily(made, uids, seconds, interval_s) if seconds else 0
            made.await_messages(3 * (pipelines + sent))
            return [empty, idle, rest, made.state()], sent
        finally:
            stop_all([made.worker])


def measure(pipelines: int, seconds: float, interval_s: float) -> State:
    """Return the costs of a message, and of a pipeline."""
    (_, few, _, _), _ = observe(FEW, 0, interval_s)
    (empty, idle, rest, after), sent = observe(pipelines, seconds, interval_s)
    of_message = {name: (after[name] - rest[name]) / sent for name in rest}
    at_rest = {name: (rest[name] - idle[name]) / (pipelines * seconds / 2) for name in rest}
    grown = {name: (rest[name] - empty[name]) / pipelines for name in rest}
    return {
        **{f"{name} per message": of_message[f"{name} cpu"] for name in PARTS},
        **{f"{name} per idle pipeline and second": at_rest[f"{name} cpu"] for name in PARTS},
        "journal bytes per message": of_message["postgres bytes"],
        "log bytes per message": of_message["log bytes"],
        "bus bytes per pipeline": grown["bus bytes"],
        "postgres bytes per pipeline": grown["postgres bytes"],
        "worker bytes per pipeline": (rest["worker bytes"] - few["worker bytes"])
        / (pipelines - FEW),
    }


def derive(costs: State) -> State:
    """Return the plan: cores, hosts, cells, bytes and rates."""
    cores = {name: RATE * costs[f"{name} per message"] / SHARE for name in PARTS}
    worker_gb = PIPELINES * costs["worker bytes per pipeline"] / 1e9
    return {
        "worker cores": cores["worker"],
        "worker memory GB": worker_gb,
        "worker hosts": math.ceil(max(cores["worker"] / CORES, worker_gb / MEMORY_GB / SHARE)),
        "cells": 2 ** math.ceil(math.log2(max(1.0, cores["bus"]))),
        "bus memory GB": PIPELINES * costs["bus bytes per pipeline"] / 1e9,
        "postgres cores": cores["postgres"],
        "postgres hosts": math.ceil(cores["postgres"] / CORES),
        "commits per second": RATE,
        "log MB per second": RATE * costs["log bytes per message"] / 1e6,
        "stores GB": PIPELINES * costs["postgres bytes per pipeline"] / 1e9,
        "journal GB per day": RATE * DAY_S * costs["journal bytes per message"] / 1e9,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pipelines", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--interval", type=float, default=PIPELINES / RATE)
    given = parser.parse_args()
    costs = measure(given.pipelines, given.seconds, given.interval)
    plan = derive(costs)
    for name, value in costs.items():
        is_time = "bytes" not in name
        print(f"{name:>38}: {value * 1e6:,.1f} us" if is_time else f"{name:>38}: {value:,.0f}")
    for name, value in plan.items():
        print(f"{name:>38}: {value:,.0f}")
    write_result({"costs": costs, "plan": plan}, given.json)


if __name__ == "__main__":
    main()
