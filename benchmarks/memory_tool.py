"""Compare `create` calls of the memory tool with plain writes of the block memory_write.

    .venv/bin/python benchmarks/memory_tool.py [--messages 20480] [--rounds 5] [--json FILE]

Both blocks run as in a worker: batches of 256 messages, each in one transaction on disk, without
the bus. Rounds alternate between the blocks. Prints messages per second and the ratio, and writes
every round as JSON.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import orjson

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.support.harness import make_parser, write_result
from memrelay.blocks.contract import Agent, BlockArgs, Call, Limits
from memrelay.blocks.registry import built_in_blocks
from memrelay.bus.codec import decode
from memrelay.memory.memory_id import home_of, store_path
from memrelay.memory.records.ids import derive_guid
from memrelay.memory.sqlite.store import Store

UID, BATCH, MESSAGE_BYTES = "be9c4002", 256, 1 << 20
TEXT = "of a store that remembers what was said about gardens, rivers and trains"
numbers = count(1)


class Ids:
    """Makes ids as a cascade does."""

    def __init__(self) -> None:
        self._input_id = f"{time.time_ns() // 1_000_000}-{next(numbers)}"

    def new_guid(self, alias: str) -> str:
        """Return a new guid."""
        return derive_guid(UID, self._input_id, alias, 1)

    def beside(self, memory_id: str) -> Any:
        """Fail: these blocks read no second store."""
        raise NotImplementedError(memory_id)


def make_write(number: int) -> str:
    """Return the text of a write."""
    return f"record {number} {TEXT}"


def make_create(number: int) -> str:
    """Return the arguments of a tool call that writes the same text."""
    arguments = {"command": "create", "key": f"notes/{number}", "content": make_write(number)}
    return orjson.dumps(arguments).decode()


def make_envelopes(texts: Iterator[str]) -> list[bytes]:
    """Return the messages as they come from the bus."""
    return [
        orjson.dumps(
            {
                "from": "User",
                "id": "user",
                "args": [{"username": "user", "text": text, "type": "text/plain"}],
            }
        )
        for text in texts
    ]


def measure(store: Store, block: str, args: BlockArgs, envelopes: list[bytes]) -> float:
    """Return messages per second of one block."""
    handle = built_in_blocks()[block].handle
    assert handle is not None
    agent, limits = Agent(UID, block, block, block, True, "chat"), Limits(MESSAGE_BYTES)
    began = time.perf_counter()
    for start in range(0, len(envelopes), BATCH):
        with store.transaction() as tx:
            for envelope in envelopes[start : start + BATCH]:
                now_ms = time.time_ns() // 1_000_000
                tx.records.acts(now_ms, agent.name)
                message = decode(envelope, MESSAGE_BYTES)
                handle(Call(agent, message, now_ms, limits, Ids(), tx), args)
    return len(envelopes) / (time.perf_counter() - began)


def main() -> None:
    """Run the rounds and print the figures."""
    parser = make_parser(__doc__, 5)
    parser.add_argument("--messages", type=int, default=80 * BATCH)
    options = parser.parse_args()
    rates: dict[str, list[float]] = {"memory_write": [], "memory_tool": []}
    makers = {"memory_write": make_write, "memory_tool": make_create}
    homes = {"memory_write": "memories", "memory_tool": "stores"}
    with tempfile.TemporaryDirectory(prefix="memrelay-bench-") as folder:
        stores = {name: home_of(UID, home) for name, home in homes.items()}
        opened = {name: Store(at, store_path(Path(folder), at)) for name, at in stores.items()}
        for turn in range(options.rounds):
            first = turn * options.messages
            for name, make in makers.items():
                envelopes = make_envelopes(map(make, range(first, first + options.messages)))
                args = built_in_blocks()[name].args.model_validate({"memory_id": stores[name]})
                rates[name].append(measure(opened[name], name, args, envelopes))
        for store in opened.values():
            store.close()
    medians = {name: statistics.median(found) for name, found in rates.items()}
    for name, rate in medians.items():
        print(f"{name:<14} {rate:8,.0f}/s")
    print(f"ratio          {medians['memory_tool'] / medians['memory_write']:8.2f}")
    write_result({"rates": rates, "medians": medians}, options.json)


if __name__ == "__main__":
    main()
