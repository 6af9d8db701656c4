"""usage: pipelines.py [--pipelines N] [--rounds N] [--messages N] [--json FILE]. Compare many
pipelines with one.

The same number of writes goes into the input of one pipeline, and evenly into N (50 by default).
The time until the last result is in the logs is measured. Prints messages per second and the
ratio, and writes every round as JSON.
"""

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import hiredis
import orjson

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.support.blocking import BlockingConnection
from benchmarks.support.harness import make_parser, stop_all, temporary_bus, write_result
from memrelay.bus.client.resp import EXEC, MULTI, pack
from memrelay.bus.keys import input_key, swarm_key

SERVE = Path(__file__).resolve().parent / "support" / "serve.py"
TEXT = "of a store that remembers what was said about gardens, rivers and trains"


def make_writes(uids: list[str], count: int) -> bytes:
    """Return one packed MULTI that adds `count` writes to the inputs in turn."""
    return make_messages(uids, [f"/write record {number} {TEXT}" for number in range(count)])


def make_messages(uids: list[str], texts: list[str]) -> bytes:
    """Return one packed MULTI that adds messages with these texts to the inputs in turn."""
    parts = [MULTI]
    for number, text in enumerate(texts):
        envelope = {
            "from": "User",
            "id": "user",
            "args": [{"username": "user", "text": text, "type": "text/plain"}],
        }
        parts.append(
            pack(
                "XADD",
                input_key(uids[number % len(uids)]),
                "*",
                "swarm",
                "chat",
                "data",
                orjson.dumps(envelope),
            )
        )
    return b"".join([*parts, EXEC])


def measure(uids: list[str], count: int) -> float:
    """Return messages per second. Starts a worker and a bus for the measurement."""
    with temporary_bus("pipelines") as (folder, server):
        socket = str(server.socket_path)
        worker = subprocess.Popen(
            [sys.executable, SERVE, socket, folder / "memory", *uids], text=True
        )
        try:
            connection = BlockingConnection(socket)
            _drain(
                connection, uids, 2 * len(uids)
            )  # warm up: the start and the opening of the stores
            return count / _drain(connection, uids, count)
        finally:
            stop_all([worker])


def _drain(connection: BlockingConnection, uids: list[str], count: int) -> float:
    """Add writes and return the seconds until all are processed."""
    before = count_messages(connection, uids)
    connection.send(make_writes(uids, count), count + 2)
    started_s = time.perf_counter()
    while (
        count_messages(connection, uids) - before < 3 * count
        # the log gets the message, the relay's output and the result
    ):
        if time.perf_counter() - started_s > 120:
            raise TimeoutError("not every write was answered within 120 s")
        time.sleep(max(0.005, len(uids) / 10_000))
    return time.perf_counter() - started_s


def count_messages(connection: BlockingConnection, uids: list[str]) -> int:
    """Return the number of messages ever added to the logs."""
    commands = [pack("XINFO", "STREAM", swarm_key(uid, "chat")) for uid in uids]
    replies = connection.send_all(commands)
    found = [reply for reply in replies if not isinstance(reply, hiredis.ReplyError)]
    return sum(dict(zip(one[::2], one[1::2], strict=True))[b"entries-added"] for one in found)


def main() -> None:
    """Run the benchmark."""
    parser = make_parser(__doc__, rounds=3)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--pipelines", type=int, default=50)
    given = parser.parse_args()
    cases = {"one": ["p0"], "many": [f"p{number}" for number in range(given.pipelines)]}
    rounds = []
    for _ in range(given.rounds):
        rounds.append({})
        for name, uids in cases.items():
            rounds[-1][name] = measure(uids, given.messages)
    ratios = [one["many"] / one["one"] for one in rounds]
    result = {
        "cores": os.cpu_count(),
        "rounds": rounds,
        "ratios": ratios,
        "ratio": statistics.median(ratios),
    }
    for name in cases:
        rate = statistics.median(one[name] for one in rounds)
        print(f"{name} pipeline(s): {rate:,.0f} messages per second")
    listed = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    kept = f"{given.pipelines} pipelines keep {result['ratio']:.2f} of the rate of one"
    print(f"{kept} (rounds: {listed})")
    write_result(result, given.json)


if __name__ == "__main__":
    main()
