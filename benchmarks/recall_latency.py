"""How long a search takes in stores of 10,000, 100,000 and 1,000,000 records, with `mode: hybrid`
or `fts`, and in what memory.

    .venv/bin/python benchmarks/recall_latency.py [--records 100000] [--turns] [--vectors] [--mode
    fts] [--keep FOLDER]

Texts are made: 4 to 44 words of a vocabulary of 50,000, drawn as in natural text (the n-th word a
n-th as often as the first),
so that the first is in four of five records. The words of queries are drawn the same way, or from
the 20 most common alone.
Vectors are made too, of records and of questions (benchmarks/made_vectors.py): what the built-in
model takes for a question,
some 5 ms, comes on top; of 10,000 and 100,000 records, unless more is asked for, since more are not
kept in memory.
"""

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.support.synthetic_vectors import MadeVectors, Ready
from benchmarks.recall.product import embed_all
from memrelay.memory.embedding.questions import Questions
from memrelay.memory.operations.records_search import SearchInput, search
from memrelay.memory.operations.records_write import WriteInput, write
from memrelay.memory.search.pool import Meaning, Pool
from memrelay.memory.sqlite.store import Store
from memrelay.worker.background.index_merge import merge_some

SIZES, SIZES_OF_VECTORS = (10_000, 100_000, 1_000_000), (10_000, 100_000)
VOCABULARY, QUERIES, BATCH, TURNS_A_THREAD = 50_000, 200, 500, 200
SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]


def word(number: int) -> str:
    """A word of three syllables, another for each number."""
    return "".join(
        SYLLABLES[number // len(SYLLABLES) ** place % len(SYLLABLES)] for place in range(3)
    )


class Texts:
    """Makes texts, the same ones each time."""

    def __init__(self) -> None:
        self._chance = np.random.default_rng(1)
        self._words = np.array([word(number) for number in range(VOCABULARY)])
        weights = 1 / np.arange(1, VOCABULARY + 1)
        self._weights = weights / weights.sum()

    def of(self, length: int, most: int = VOCABULARY) -> str:
        """So many words, of the `most` most common."""
        weights = self._weights[:most] / self._weights[:most].sum()
        return " ".join(self._words[self._chance.choice(most, length, p=weights)])

    def many(self, count: int) -> Iterator[str]:
        """Texts of records."""
        lengths = self._chance.integers(4, 45, count)
        words = self._words[self._chance.choice(VOCABULARY, int(lengths.sum()), p=self._weights)]
        return map(" ".join, np.split(words, np.cumsum(lengths)[:-1]))


def fill(store: Store, records: int, *, turns: bool) -> float:
    """Writes the records; records a second, the making of their texts not counted."""
    texts, took = Texts(), 0.0
    for first in range(0, records, BATCH):
        batch = [
            WriteInput(
                f"guid-{first + i:08}",
                "bench",
                f"kind{i % 4}",
                text,
                f"speaker{i % 2}",
                (f"tag{i % 8}",),
                1,
                f"thread{(first + i) // TURNS_A_THREAD}" if turns else "",
            )
            for i, text in enumerate(texts.many(BATCH))
        ]
        began = time.perf_counter()
        with store.transaction() as tx:
            for new in batch:
                write(tx, new)
        took += time.perf_counter() - began
    return records / took


def measure(store: Store, texts: list[str], **filters: object) -> tuple[float, float, float, float]:
    """(p50, p95, longest) of the queries, and the p95 of their processor time, which other programs
    disturb less; ms."""
    took, used = [], []
    for text in texts:
        began, began_cpu = time.perf_counter(), time.thread_time()
        search(store, SearchInput(text, 1 << 30, **filters))  # type: ignore[arg-type]
        took.append((time.perf_counter() - began) * 1000)
        used.append((time.thread_time() - began_cpu) * 1000)
    return (*np.percentile(took, [50, 95, 100]), float(np.percentile(used, 95)))  # type: ignore[return-value]


def memory_mb() -> int:
    """The most that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def opened(records: int, folder: Path, *, turns: bool, vectors: bool) -> Store:
    """The store of that size, which is filled where it is new."""
    path = folder / f"{records}{'-turns' if turns else ''}{'-vectors' if vectors else ''}.db"
    new, embedder = not path.exists(), MadeVectors()
    meaning = Meaning(Questions(Ready(embedder)), Pool()) if vectors else None  # type: ignore[arg-type]
    store = Store("bench/recall", path, meaning=meaning)
    if new:
        print(
            f"{records:>9,} records  written at {fill(store, records, turns=turns):,.0f}/s, {memory_mb()} MB"
        )
        if vectors:
            embed_all(store, embedder)
        while merge_some(store):  # as a worker does that is quiet
            pass
    return store


def run(records: int, folder: Path, mode: str, *, turns: bool, vectors: bool) -> None:
    """One size: a table row for each kind of query."""
    store = opened(records, folder, turns=turns, vectors=vectors)
    store.begin()  # searches run in a transaction, many in one, as in a worker's batch
    texts, (first, *_) = Texts(), measure(store, ["bada"], mode=mode)
    usual = [texts.of(5) for _ in range(QUERIES)]
    for name, queries, filters in (
        ("five words", usual, {}),
        ("two words", [texts.of(2) for _ in range(QUERIES)], {}),
        ("five common words", [texts.of(5, 20) for _ in range(QUERIES)], {}),
        ("the commonest word", [word(0)] * 20, {}),
        ("kind and tag", usual, {"filters": {"kind": "kind1"}, "tags": ("tag1",)}),
        ("a hundred hits", usual, {"limit": 100}),
    ):
        p50, p95, longest, cpu = measure(store, queries, **{"mode": mode, "limit": 10, **filters})
        print(
            f"{records:>9,} {name:20} p50 {p50:7.1f}  p95 {p95:7.1f}  longest {longest:7.1f}  CPU p95 {cpu:7.1f} ms"
        )
    print(f"{records:>9,} first search {first:7.0f} ms, {memory_mb()} MB\n")
    store.rollback()
    store.close()


def main() -> None:
    """All sizes, or the one that is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, action="append")
    parser.add_argument("--turns", action="store_true", help=f"in threads of {TURNS_A_THREAD}")
    parser.add_argument("--vectors", action="store_true", help="with vectors of 384 numbers")
    parser.add_argument(
        "--mode",
        choices=("fts", "hybrid"),
        default="hybrid",
        help="fts is what a search has that names none",
    )
    parser.add_argument(
        "--keep", type=Path, help="a folder for the stores, so that they are made once"
    )
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for records in asked.records or (SIZES_OF_VECTORS if asked.vectors else SIZES):
            run(
                records,
                asked.keep or Path(folder),
                asked.mode,
                turns=asked.turns,
                vectors=asked.vectors,
            )


if __name__ == "__main__":
    main()
