"""Measure MemrelaySaver next to AsyncSqliteSaver: time and bytes of a growing conversation.

    .venv/bin/python benchmarks/checkpoints.py [--turns 200] [--rounds 3]

Each turn reads the newest checkpoint, adds a message of the user and one of the assistant, and
stores the new checkpoint. The savers take turns in one run, so ratios compare the same load. The
bus is a real worker with a Valkey server; calls go through Redis, without HTTP.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from memrelay import open_store
from memrelay.bus.client.url import Address
from memrelay.integrations.langgraph import MemrelaySaver
from memrelay.pipelines.secret_references import NO_SECRETS
from memrelay.worker.deferred_calls.bus_operations import BusOperations, CallOperations
from tests.support.bundles import make_bundle, make_uid
from tests.support.system import TestSystem

Saver = BaseCheckpointSaver[Any]
THREAD: Any = {"configurable": {"thread_id": "ada:chat:support", "checkpoint_ns": ""}}
TEXT = "please tell me how the order that I placed yesterday evening can be changed again"
WORDS = TEXT.split()


class Figures(NamedTuple):
    """Mean times of one call, and the bytes of the file with its log."""

    get_ms: float
    put_ms: float
    bytes: int

    @property
    def ms(self) -> float:
        """Return the time of a turn."""
        return self.get_ms + self.put_ms


def text_of(turn: int, words: int) -> str:
    """Return a text that differs in each turn."""
    return " ".join(f"{WORDS[(turn * 7 + n) % len(WORDS)]}{turn * n % 97}" for n in range(words))


async def take_turn(saver: Saver, turn: int) -> tuple[float, float]:
    """Return the seconds of reading and of storing."""
    began = time.perf_counter()
    found = await saver.aget_tuple(THREAD)
    read_s = time.perf_counter() - began
    messages = found.checkpoint["channel_values"]["messages"] if found else []
    assert len(messages) == 2 * turn
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = {
        "messages": [
            *messages,
            HumanMessage(text_of(turn, 15), id=f"h{turn}"),
            AIMessage(text_of(turn, 25), id=f"a{turn}", response_metadata={"model": "m"}),
        ]
    }
    checkpoint["channel_versions"] = {
        "__start__": turn * 3,
        "messages": turn * 3 + 1,
        "agent": turn,
    }
    checkpoint["versions_seen"] = {
        "agent": {"messages": turn * 3},
        "__start__": {"__start__": turn},
    }
    metadata: Any = {"source": "loop", "step": turn, "parents": {}}
    config = found.config if found else THREAD
    began = time.perf_counter()
    await saver.aput(config, checkpoint, metadata, {"messages": turn * 3 + 1})
    return read_s, time.perf_counter() - began


@asynccontextmanager
async def open_peer(path: Path) -> AsyncIterator[Saver]:
    """Open AsyncSqliteSaver."""
    async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
        yield saver


@asynccontextmanager
async def open_embedded(path: Path) -> AsyncIterator[Saver]:
    """Open MemrelaySaver on an embedded store."""
    with open_store(path) as store:
        yield MemrelaySaver(store)


class DeferredCall:
    """Calls operations over the bus, as a deferred call does."""

    def __init__(self, operations: CallOperations) -> None:
        self._operations = operations

    async def operate(
        self, name: str, given: Mapping[str, Any], *, store: str = "", key: str = ""
    ) -> Any:
        """Call an operation."""
        return await self._operations.call(name, given, store, key)


@asynccontextmanager
async def open_over_bus(system: TestSystem, uid: str) -> AsyncIterator[Saver]:
    """Open MemrelaySaver as a deferred call of a worker uses it."""
    bus = BusOperations(Address(path=str(system.server.socket_path)), NO_SECRETS)
    try:
        yield MemrelaySaver(DeferredCall(CallOperations(bus, uid, "agent", f"{uid}/e")))
    finally:
        await bus.close()


async def measure(turns: int) -> dict[str, Figures]:
    """Return the figures of each saver. The savers take turns."""
    with TestSystem() as system:
        uid = make_uid()
        worker = system.start_worker()
        # `deploy` of the system runs another event loop.
        await asyncio.to_thread(system.deploy, make_bundle(uid))
        files = {
            "AsyncSqliteSaver": system.folder / "peer.db",
            "embedded": system.folder / "own.db",
            "bus": system.store_file(uid),
        }
        async with (
            open_peer(files["AsyncSqliteSaver"]) as peer,
            open_embedded(files["embedded"]) as own,
            open_over_bus(system, uid) as remote,
        ):
            times = await _run(dict(zip(files, (peer, own, remote), strict=True)), turns)
        await asyncio.to_thread(worker.stop)  # it moves the log into the file
        return {name: Figures(*times[name], _bytes_of(file)) for name, file in files.items()}


async def _run(savers: Mapping[str, Saver], turns: int) -> dict[str, tuple[float, float]]:
    """Return the mean milliseconds of reading and of storing, by saver."""
    spent = {name: [0.0, 0.0] for name in savers}
    for turn in range(turns):
        for name, saver in savers.items():
            for place, took_s in enumerate(await take_turn(saver, turn)):
                spent[name][place] += took_s
    return {name: (1000 * get / turns, 1000 * put / turns) for name, (get, put) in spent.items()}


def _bytes_of(file: Path) -> int:
    return sum(one.stat().st_size for one in (file, Path(f"{file}-wal")) if one.exists())


def main() -> None:
    """Print the figures and their ratios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    rounds = [asyncio.run(measure(given.turns)) for _ in range(given.rounds)]
    for name in rounds[0]:
        found = [one[name] for one in rounds]
        ratios = [one[name].ms / one["AsyncSqliteSaver"].ms for one in rounds]
        sizes = [one[name].bytes / one["AsyncSqliteSaver"].bytes for one in rounds]
        print(
            f"{name:17}get {median(one.get_ms for one in found):5.2f} ms  "
            f"put {median(one.put_ms for one in found):5.2f} ms  time {median(ratios):.2f}  "
            f"{median(one.bytes for one in found) / 1e6:6.2f} MB  bytes {median(sizes):.3f}"
        )


if __name__ == "__main__":
    main()
