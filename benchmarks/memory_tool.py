"""usage: memory_tool.py [--rounds N] [--messages N] [--json FILE]. Compare `create` calls of the
memory tool with plain writes of the block memory_write.

Both blocks listen in one pipeline, on a swarm each. The same texts go to one swarm and then to the
other, and the time until all are processed is measured. Prints messages per second and the ratio,
and writes every round as JSON.
"""

import statistics
import sys
import time
from pathlib import Path
from typing import Any

import orjson

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.support.blocking import BlockingConnection
from benchmarks.support.harness import (
    make_parser,
    start_memrelay_processes,
    stop_all,
    temporary_bus,
    write_result,
)
from memrelay.bus.client.resp import EXEC, MULTI, pack
from memrelay.bus.keys import input_key

UID = "be9c4002"
TEXT = "of a store that remembers what was said about gardens, rivers and trains"
BLOCKS = {
    "memory_write": {"memory_id": "instances/${pipeline_uid}/memories"},
    "memory_tool": {},
}


def make_bundle() -> dict[str, Any]:
    """Return a pipeline in which each block listens on the swarm of its name."""
    agents = [
        {
            "agent_class": "wf_agent",
            "agent_alias": block,
            "wf_agent_name": block,
            "agent_rec_swarm": block,
            "agent_send_swarm": block,
            "agent_from": "User",
            "wf_diagram_webhook": block,
            "wf_publish_results": True,
            "wf_webhook_args": args,
        }
        for block, args in BLOCKS.items()
    ]
    return {"pipeline_name": "tool", "pipeline_uid": UID, "agents": agents}


def make_text(block: str, number: int) -> str:
    """Return a text to write, or the arguments of a tool call that writes it."""
    text = f"record {number} {TEXT}"
    arguments = {"command": "create", "key": f"notes/{number}", "content": text}
    return text if block == "memory_write" else orjson.dumps(arguments).decode()


def make_messages(block: str, first: int, count: int) -> bytes:
    """Return one packed MULTI that adds messages to the input."""
    parts = [MULTI]
    for number in range(first, first + count):
        part = {"username": "user", "text": make_text(block, number), "type": "text/plain"}
        envelope = orjson.dumps({"from": "User", "id": "user", "args": [part]})
        parts.append(pack("XADD", input_key(UID), "*", "swarm", block, "data", envelope))
    return b"".join([*parts, EXEC])


def measure(connection: BlockingConnection, block: str, first: int, count: int) -> float:
    """Return messages per second of one block."""
    messages = make_messages(block, first, count)
    started_s = time.perf_counter()
    connection.send(messages, count + 2)
    while connection.send(pack("XLEN", input_key(UID)), 1):
        if time.perf_counter() - started_s > 120:
            raise TimeoutError("not every message was processed within 120 s")
        time.sleep(0.005)
    return count / (time.perf_counter() - started_s)


def main() -> None:
    """Run the benchmark."""
    parser = make_parser(__doc__, rounds=5)
    parser.add_argument("--messages", type=int, default=20_000)
    given = parser.parse_args()
    rounds = []
    with temporary_bus("memory-tool") as (folder, server):
        socket = str(server.socket_path)
        processes, _ = start_memrelay_processes(
            folder, server.socket_path, make_bundle(), ("worker", "web")
        )
        try:
            connection = BlockingConnection(socket)
            for block in BLOCKS:
                measure(connection, block, 0, 256)  # warm up: the opening of the store
            for number in range(1, given.rounds + 1):
                first = number * given.messages
                rounds.append(
                    {block: measure(connection, block, first, given.messages) for block in BLOCKS}
                )
        finally:
            stop_all(processes)
    ratios = [one["memory_tool"] / one["memory_write"] for one in rounds]
    for block in BLOCKS:
        rate = statistics.median(one[block] for one in rounds)
        print(f"{block}: {rate:,.0f} messages per second")
    listed = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    print(f"ratio: {statistics.median(ratios):.2f} (rounds: {listed})")
    write_result({"rounds": rounds, "ratio": statistics.median(ratios)}, given.json)


if __name__ == "__main__":
    main()
