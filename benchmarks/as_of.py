"""Measure the past of a store: making a snapshot, and reads on it next to the present ones.

    .venv/bin/python benchmarks/as_of.py [--records 100000] [--changes 5000]

A third of the changes each edits, deletes and creates a record. All times are processor time of
this process; the elapsed time of making a snapshot is printed too. Goals: 100,000 records of which
5,000 changed in 5 s, by words; gets and lists take at most 1.5 times as long as those of the
present store, and searches 1.2 times.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from statistics import median, quantiles

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.recall_latency import Texts
from memrelay.memory.engine.as_of import PastStates
from memrelay.memory.engine.snapshots import Snapshots
from memrelay.memory.engine.store import Store
from memrelay.memory.operations import Context, find_operation
from memrelay.memory.records.ids import derive_guid

NAME, NOW = "instances/be9c4001/memories", 1_700_000_000_000
RESULT_BYTES, BATCH = 8 << 20, 1_000
READS, ROUNDS = 300, 3
LIST = {"limit": 100}


class Caller:
    """Calls operations of a store, each in a transaction."""

    def __init__(self) -> None:
        self._made = 0

    def call(self, store: Store, name: str, given: dict[str, object]) -> object:
        """Run an operation inside an open transaction."""
        self._made += 1
        operation, number = find_operation(name), self._made

        def make_guid() -> str:
            return derive_guid("be9c4001", f"{number}-0", "b", 1)

        request = operation.adapter.validate_python(given)
        return operation.run(store, request, Context(NOW, "bench", RESULT_BYTES, make_guid))


def fill(store: Store, caller: Caller, texts: list[str]) -> list[str]:
    """Write a record for each text, and return their guids."""
    guids = list[str]()
    for first in range(0, len(texts), BATCH):
        with store.transaction() as tx:
            for text in texts[first : first + BATCH]:
                made = caller.call(tx, "records.create", {"content": text})
                guids.append(made.guid)  # type: ignore[attr-defined]
    return guids


def change(store: Store, caller: Caller, guids: list[str], texts: list[str]) -> None:
    """Edit and delete a record for each two texts, and create one."""
    for number in range(0, len(texts), 3):
        edited, deleted, created = texts[number : number + 3]
        with store.transaction() as tx:
            caller.call(tx, "records.update", {"guid": guids[number], "content": edited})
            caller.call(tx, "records.delete", {"guid": guids[number + 1], "reason": deleted})
            caller.call(tx, "records.create", {"content": created})


def time_reads(store: Store, work: Callable[[Store, int], object]) -> list[float]:
    """Return the processor time of each read, in seconds."""
    times = list[float]()
    for number in range(READS):
        started = time.process_time()
        with store.trial() as tx:
            work(tx, number)
        times.append(time.process_time() - started)
    return times


def compare_reads(past: Store, present: Store, caller: Caller, guids: list[str]) -> None:
    """Print the times of reads of a snapshot next to those of the present store."""
    queries = [" ".join(text.split()[:2]) for text in Texts().make_records(READS)]
    reads: dict[str, Callable[[Store, int], object]] = {
        "get": lambda tx, n: caller.call(tx, "records.get", {"guid": guids[n]}),
        "list": lambda tx, n: caller.call(tx, "records.list", LIST),
        "search": lambda tx, n: caller.call(tx, "records.search", {"query": queries[n]}),
    }
    for name, work in reads.items():
        ratios = list[float]()
        for _ in range(ROUNDS):
            # Alternately, because the machine may become slower.
            ours, theirs = (time_reads(store, work) for store in (past, present))
            ratios.append(quantiles(ours, n=20)[-1] / quantiles(theirs, n=20)[-1])
        print(f"{name}: p95 {1e3 * quantiles(ours, n=20)[-1]:.2f} ms, ", end="")
        print(f"{median(ratios):.2f} times that of the present store")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--changes", type=int, default=5_000)
    wanted = parser.parse_args()
    changes = wanted.changes // 3 * 3
    texts, caller = list(Texts().make_records(wanted.records + changes)), Caller()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        store = Store(NAME, root / "live.db")
        guids = fill(store, caller, texts[: wanted.records])
        random.Random(1).shuffle(guids)
        state = store.table(PastStates).find(f"n:{wanted.records}")
        change(store, caller, guids, texts[wanted.records :])
        store.checkpoint()
        with closing(Snapshots(root, 1 << 30)) as snapshots:
            processor, elapsed = time.process_time(), time.monotonic()
            snapshot = snapshots.make(NAME, Path(store.path), state)
            processor, elapsed = time.process_time() - processor, time.monotonic() - elapsed
            print(f"{wanted.records:,} records, {changes:,} changes: ", end="")
            print(f"{processor:.2f} s of processor time, {elapsed:.2f} s; ", end="")
            print(f"{wanted.records / processor:,.0f} records a second")
            compare_reads(snapshot.store, store, caller, guids[changes:])
        store.close()


if __name__ == "__main__":
    main()
