"""Measure the latency and memory of searches in stores of 10,000, 100,000 and 1,000,000 records.

    .venv/bin/python benchmarks/recall_latency.py [--records 100000] [--turns] [--vectors]
    [--mode fts|semantic] [--keep FOLDER]

Texts are synthetic: 4 to 44 words of a vocabulary of 50,000. The n-th word is 1/n as frequent as
the first, so the first is in four of five records. Query words are drawn the same way, or from the
20 most common words.

Vectors of records and questions are synthetic too (benchmarks/support/synthetic_vectors.py). The
built-in model's 5 ms per question come on top. With vectors, a million records take some minutes
to write and 1.3 GB of disk.
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

from benchmarks.recall.product import embed_all
from benchmarks.support.synthetic_vectors import LoadedEmbedder, SyntheticVectors
from memrelay.memory.engine.store import Store
from memrelay.memory.records.writing import WriteInput, write
from memrelay.memory.search.embedding.questions import QuestionEmbedder
from memrelay.memory.search.pool import POOL, Pool, SemanticResources
from memrelay.memory.search.search import SearchInput, search
from memrelay.worker.background.index_merge import merge_step

SIZES = 10_000, 100_000, 1_000_000
# As in the default settings of a worker.
CACHE_BYTES, MATRIX_BYTES = 64 << 20, 512 << 20
VOCABULARY, QUERIES, BATCH, TURNS_PER_THREAD = 50_000, 200, 500, 200
SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]


def word(number: int) -> str:
    """Return a word of three syllables, different for each number."""
    return "".join(
        SYLLABLES[number // len(SYLLABLES) ** place % len(SYLLABLES)] for place in range(3)
    )


class Texts:
    """A generator of texts, the same in every run."""

    def __init__(self) -> None:
        self._chance = np.random.default_rng(1)
        self._words = np.array([word(number) for number in range(VOCABULARY)])
        weights = 1 / np.arange(1, VOCABULARY + 1)
        self._weights = weights / weights.sum()

    def make_query(self, length: int, most: int = VOCABULARY) -> str:
        """Return `length` words of the `most` most common ones."""
        weights = self._weights[:most] / self._weights[:most].sum()
        return " ".join(self._words[self._chance.choice(most, length, p=weights)])

    def make_records(self, count: int) -> Iterator[str]:
        """Return the texts of `count` records."""
        lengths = self._chance.integers(4, 45, count)
        words = self._words[self._chance.choice(VOCABULARY, int(lengths.sum()), p=self._weights)]
        return map(" ".join, np.split(words, np.cumsum(lengths)[:-1]))


def fill(store: Store, records: int, *, turns: bool) -> float:
    """Write the records. Return records per second, without the time to make the texts."""
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
                f"thread{(first + i) // TURNS_PER_THREAD}" if turns else "",
            )
            for i, text in enumerate(texts.make_records(BATCH))
        ]
        started_s = time.perf_counter()
        with store.transaction() as tx:
            for new in batch:
                write(tx, new)
        took += time.perf_counter() - started_s
    return records / took


def measure(store: Store, texts: list[str], **filters: object) -> tuple[float, float, float, float]:
    """Return p50, p95 and the maximum of the latencies, and p95 of the CPU time, which other
    programs disturb less. All in milliseconds."""
    took, cpu_times = [], []
    for text in texts:
        started_s, started_cpu_s = time.perf_counter(), time.thread_time()
        search(store, SearchInput(text, 1 << 30, **filters))  # type: ignore[arg-type]
        took.append((time.perf_counter() - started_s) * 1000)
        cpu_times.append((time.thread_time() - started_cpu_s) * 1000)
    return (*np.percentile(took, [50, 95, 100]), float(np.percentile(cpu_times, 95)))  # type: ignore[return-value]


def memory_mb() -> int:
    """Return the peak memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def open_filled(records: int, folder: Path, *, turns: bool, vectors: bool) -> Store:
    """Open the store of this size. Fill it first if it is new."""
    path = folder / f"{records}{'-turns' if turns else ''}{'-vectors' if vectors else ''}.db"
    new, embedder = not path.exists(), SyntheticVectors()
    questions = QuestionEmbedder(LoadedEmbedder(embedder))  # type: ignore[arg-type]
    pool = Pool(CACHE_BYTES, MATRIX_BYTES)
    meaning = SemanticResources(questions, pool) if vectors else None
    store = Store("bench/recall", path, meaning=meaning)
    if new:
        rate = fill(store, records, turns=turns)
        print(f"{records:>9,} records  written at {rate:,.0f}/s, {memory_mb()} MB")
        if vectors:
            embed_all(store, embedder)
        while merge_step(store):  # as an idle worker does
            pass
    return store


def run(records: int, folder: Path, mode: str, *, turns: bool, vectors: bool) -> None:
    """Measure one size. Print one row per kind of query."""
    store = open_filled(records, folder, turns=turns, vectors=vectors)
    store.begin()  # a worker's batch runs many searches in one transaction
    texts, (first, *_) = Texts(), measure(store, ["bada"], mode=mode)
    usual = [texts.make_query(5) for _ in range(QUERIES)]
    for name, queries, filters in (
        ("five words", usual, {}),
        ("two words", [texts.make_query(2) for _ in range(QUERIES)], {}),
        ("five common words", [texts.make_query(5, 20) for _ in range(QUERIES)], {}),
        ("most common word", [word(0)] * 20, {}),
        ("kind and tag", usual, {"filters": {"kind": "kind1"}, "tags": ("tag1",)}),
        ("a hundred hits", usual, {"limit": 100}),
    ):
        p50, p95, longest, cpu = measure(store, queries, **{"mode": mode, "limit": 10, **filters})
        print(
            f"{records:>9,} {name:20} p50 {p50:7.1f}  p95 {p95:7.1f}  longest {longest:7.1f}  "
            f"CPU p95 {cpu:7.1f} ms"
        )
    caches = POOL if store.meaning is None else store.meaning.matrices
    print(
        f"{records:>9,} first search {first:7.0f} ms, {memory_mb()} MB, of which search caches "
        f"{caches.nbytes / 1e6:.0f} MB\n"
    )
    store.rollback()
    store.close()


def main() -> None:
    """Run the benchmark for all sizes or the given ones."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, action="append")
    parser.add_argument(
        "--turns", action="store_true", help=f"records are turns in threads of {TURNS_PER_THREAD}"
    )
    parser.add_argument("--vectors", action="store_true", help="with vectors of 384 dimensions")
    parser.add_argument(
        "--mode",
        choices=("fts", "hybrid", "semantic"),
        default="hybrid",
        help="fts is the default mode of a search",
    )
    parser.add_argument("--keep", type=Path, help="folder that keeps the stores for the next run")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for records in given.records or SIZES:
            run(
                records,
                given.keep or Path(folder),
                given.mode,
                turns=given.turns,
                vectors=given.vectors,
            )


if __name__ == "__main__":
    main()
