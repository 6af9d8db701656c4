"""usage: webhooks.py [--rounds N] [--seconds S] [--json FILE]. Our webhook beside an aiohttp
handler that does nothing.

Both get the same request in one run, with a token, over 64 connections that are kept. Ours checks
the token and answers 202
when the bus has the message; the bus syncs its append-only file every second, or always. No worker
runs. The rounds are
interleaved; printed are medians of the requests a second and of the processor's time for each in
the web process, and in
brackets the ratios to the handler that does nothing.
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
from benchmarks.support.load import Load
from benchmarks.support.harness import bus_of_its_own, end, keep, options, start_peer, start_product
from memrelay.bus.client.resp import pack
from memrelay.bus.keys import input_key

UID, ALIAS, TOKEN = "bench", "memory_write", "a-token-of-the-usual-length-0123"
BODY = b'{"text": "record 42 of a store that remembers what was said about gardens, rivers and trains"}'
REQUEST = (
    f"POST /webhooks/{UID}/{ALIAS} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
    f"Content-Type: application/json\r\nContent-Length: {len(BODY)}\r\n\r\n"
).encode() + BODY
ROWS = {"nothing": "", "everysec": "everysec", "always": "always"}  # row -> how the bus syncs
Rounds = dict[str, list[dict[str, float]]]
TICKS = os.sysconf("SC_CLK_TCK")


class Server(NamedTuple):
    """A process that is asked."""

    process: subprocess.Popen[str]
    port: int

    def cpu_s(self) -> float:
        """Its processor time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS


def start_ours(folder: Path, socket: Path) -> Server:
    """`memrelay web`, with one pipeline whose agent wants a token."""
    bundle = make_bundle(UID)
    for agent in bundle["agents"]:
        agent["wf_webhook_token"] = "env:BENCH_TOKEN"
    (web,), port = start_product(folder, socket, bundle, ["web"], BENCH_TOKEN=TOKEN)
    return Server(web, port)


def measure(server: Server, seconds: float) -> dict[str, float]:
    """One round: requests a second, and microseconds of the server's processor time for each."""
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
    """By row, every round's figures."""
    rounds: Rounds = {row: [] for row in ROWS}
    for number in range(given.rounds + 1):  # the first one warms up
        for row, sync in ROWS.items():
            if sync:
                bus.send(pack("CONFIG", "SET", "appendfsync", sync), 1)
            figures = measure(servers[row], given.seconds if number else 0.5)
            if number:
                rounds[row].append(figures)
            bus.send(pack("DEL", input_key(UID)), 1)
    return rounds


def report(rounds: Rounds) -> dict[str, Any]:
    """Medians, printed and returned."""
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
            f"{row:9} {medians['rate']:8,.0f} requests a second ({medians['rate_ratio']:.2f})   "
            f"{medians['cpu_us']:5.0f} us each in the web process ({medians['cpu_ratio']:.2f})   "
            f"{medians['generator_us']:3.0f} us in the generator"
        )
        result[row] = medians
    return result


def main() -> None:
    """The command."""
    parser = options(__doc__, rounds=7)
    parser.add_argument("--seconds", type=float, default=2.0)
    given = parser.parse_args()
    servers: list[Server] = []
    with bus_of_its_own("webhooks") as (folder, bus):
        try:
            servers += [Server(*start_peer("nothing.py")), start_ours(folder, bus.socket_path)]
            rows = dict(zip(ROWS, (servers[0], servers[1], servers[1]), strict=True))
            result = report(run_rounds(given, rows, BlockingConnection(str(bus.socket_path))))
        finally:
            end([server.process for server in servers])
    keep(result, given.json)


if __name__ == "__main__":
    main()
