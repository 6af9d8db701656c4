"""usage: pipelines.py [--rounds N] [--messages N] [--json FILE]. Fifty pipelines with even traffic,
beside one, in one run.

The same number of writes goes into one pipeline's input, and evenly into fifty; measured is the
time until the last result is
in the logs. Prints messages a second and the ratio, and writes both with every round as JSON.
"""

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import hiredis
import orjson

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from benchmarks.support.blocking import BlockingConnection  # noqa: E402  the checkout is no installed package here
from benchmarks.support.harness import bus_of_its_own, end, keep, options  # noqa: E402
from memrelay.bus.client.resp import EXEC, MULTI, pack  # noqa: E402
from memrelay.bus.keys import input_key, swarm_key  # noqa: E402


def writes(uids: list[str], count: int) -> bytes:
    """One MULTI that puts `count` writes into the inputs, in turn."""
    parts = [MULTI]
    for number in range(count):
        text = f"/write record {number} of a store that remembers what was said about gardens, rivers and trains"
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
    """Messages a second of one drain; the worker is started and ended here, on a server of its
    own."""
    with bus_of_its_own("pipelines") as (folder, server):
        socket = str(server.socket_path)
        worker = subprocess.Popen(
            [sys.executable, HERE / "serve.py", socket, folder / "memory", *uids], text=True
        )
        try:
            connection = BlockingConnection(socket)
            _drain(connection, uids, 2 * len(uids))  # its start, and the stores' first opening
            return count / _drain(connection, uids, count)
        finally:
            end([worker])


def _drain(connection: BlockingConnection, uids: list[str], count: int) -> float:
    """Seconds until every input is worked off."""
    said = _said(connection, uids)
    connection.send(writes(uids, count), count + 2)
    began = time.perf_counter()
    while (
        _said(connection, uids) - said < 3 * count
    ):  # each write is said as it came, relayed and answered
        if time.perf_counter() - began > 120:
            raise TimeoutError("not every write was answered within 120 s")
        time.sleep(0.005)
    return time.perf_counter() - began


def _said(connection: BlockingConnection, uids: list[str]) -> int:
    """How many messages were ever said on all swarms."""
    total = 0
    for uid in uids:
        info = connection.send(pack("XINFO", "STREAM", swarm_key(uid, "chat")), 1)
        if not isinstance(info, hiredis.ReplyError):
            total += dict(zip(info[::2], info[1::2], strict=True))[b"entries-added"]
    return total


def main() -> None:
    """The command."""
    parser = options(__doc__, rounds=3)
    parser.add_argument("--messages", type=int, default=20_000)
    given = parser.parse_args()
    cases = {"one": ["p0"], "fifty": [f"p{number}" for number in range(50)]}
    rounds = []
    for _ in range(given.rounds):
        rounds.append({})
        for name, uids in cases.items():
            rounds[-1][name] = measure(uids, given.messages)
    ratios = [one["fifty"] / one["one"] for one in rounds]
    result = {
        "cores": os.cpu_count(),
        "rounds": rounds,
        "ratios": ratios,
        "ratio": statistics.median(ratios),
    }
    for name in cases:
        print(
            f"{name} pipeline(s): {statistics.median(one[name] for one in rounds):,.0f} messages a second"
        )
    print(
        f"fifty pipelines keep {result['ratio']:.2f} of one's rate (rounds: {', '.join(f'{ratio:.2f}' for ratio in ratios)})"
    )
    keep(result, given.json)


if __name__ == "__main__":
    main()
