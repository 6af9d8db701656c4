"""usage: webhooks.py [--rounds N] [--seconds S] [--json FILE]. Compare the webhook with an empty
handler.

Both servers get the same request in one run, with a token, over 64 persistent connections. Memrelay
checks the token and answers 202 when the bus has the message. The bus syncs its append-only file
every second, or always. No worker runs.

Rounds are interleaved. Prints medians of requests per second and of the web process's CPU time per
request. The ratios to the empty handler are in parentheses.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.support.blocking import BlockingConnection
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
from memrelay.bus.client.resp import pack
from memrelay.bus.keys import input_key

UID, ALIAS, TOKEN = "bench", "memory_write", "a-token-of-the-usual-length-0123"
TEXT = b"record 42 of a store that remembers what was said about gardens, rivers and trains"
BODY = b'{"text": "' + TEXT + b'"}'
REQUEST = (
    f"POST /webhooks/{UID}/{ALIAS} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
    f"Content-Type: application/json\r\nContent-Length: {len(BODY)}\r\n\r\n"
).encode() + BODY
ROWS = {
    "nothing": "",
    "everysec": "everysec",
    "always": "always",
}  # row -> the appendfsync setting of the bus
Rounds = dict[str, list[dict[str, float]]]
TICKS = os.sysconf("SC_CLK_TCK")


class Server(NamedTuple):
    """A server process and its port."""

    process: subprocess.Popen[str]
    port: int

    def cpu_s(self) -> float:
        """Return the CPU time of the process so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS


def start_memrelay(folder: Path, socket: Path) -> Server:
    """Start `memrelay web` with one pipeline whose agent requires a token."""
    bundle = make_bundle(UID)
    for agent in bundle["agents"]:
        agent["wf_webhook_token"] = "env:BENCH_TOKEN"
    (web,), port = start_memrelay_processes(folder, socket, bundle, ["web"], BENCH_TOKEN=TOKEN)
    return Server(web, port)


def measure(server: Server, seconds: float) -> dict[str, float]:
    """Measure one round: requests per second, and CPU microseconds per request of the server and
    the generator."""
    load = Load(server.port, REQUEST, 64)
    load.run(0.2)
    before, mine = server.cpu_s(), time.process_time()
    counted = load.run(seconds)
    cpu_s, generator_s = server.cpu_s() - before, time.process_time() - mine
    load.close()
    return {
        "rate": counted.answers / counted.seconds,
        "cpu_us": 1e6 * cpu_s / counted.answers,
        "generator_us": 1e6 * generator_s / counted.answers,
    }


def run_rounds(
    given: argparse.Namespace, servers: dict[str, Server], bus: BlockingConnection
) -> Rounds:
    """Return the results of every round by row."""
    rounds: Rounds = {row: [] for row in ROWS}
    for number in range(given.rounds + 1):  # the first round warms up
        for row, sync in ROWS.items():
            if sync:
                bus.send(pack("CONFIG", "SET", "appendfsync", sync), 1)
            figures = measure(servers[row], given.seconds if number else 0.5)
            if number:
                rounds[row].append(figures)
            bus.send(pack("DEL", input_key(UID)), 1)
    return rounds


def report(rounds: Rounds) -> dict[str, Any]:
    """Print and return the medians."""
    result: dict[str, Any] = {"cores": os.cpu_count(), "rounds": rounds}
    for row, figures in rounds.items():
        medians = {name: statistics.median(one[name] for one in figures) for name in figures[0]}
        pairs = list(zip(figures, rounds["nothing"], strict=True))
        medians["rate_ratio"] = statistics.median(
            one["rate"] / nothing["rate"] for one, nothing in pairs
        )
        medians["cpu_ratio"] = statistics.median(
            nothing["cpu_us"] / one["cpu_us"] for one, nothing in pairs
        )
        print(
            f"{row:9} {medians['rate']:8,.0f} requests/s ({medians['rate_ratio']:.2f})   "
            f"{medians['cpu_us']:5.0f} us CPU per request in the web process "
            f"({medians['cpu_ratio']:.2f})   "
            f"{medians['generator_us']:3.0f} us in the generator"
        )
        result[row] = medians
    return result


def main() -> None:
    """Run the benchmark."""
    parser = make_parser(__doc__, rounds=7)
    parser.add_argument("--seconds", type=float, default=2.0)
    given = parser.parse_args()
    servers: list[Server] = []
    with temporary_bus("webhooks") as (folder, bus):
        try:
            servers += [
                Server(*start_peer("empty_handler.py")),
                start_memrelay(folder, bus.socket_path),
            ]
            rows = dict(zip(ROWS, (servers[0], servers[1], servers[1]), strict=True))
            result = report(run_rounds(given, rows, BlockingConnection(str(bus.socket_path))))
        finally:
            stop_all([server.process for server in servers])
    write_result(result, given.json)


if __name__ == "__main__":
    main()
