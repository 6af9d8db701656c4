"""Measure writes to a named memory without embedding, in memories of 1,000, 10,000 and 100,000
entries.

    .venv/bin/python benchmarks/entries.py [--entries 100000] [--writes 300] [--keep FOLDER]
    [--json FILE]

Each write is compared with the existing entries and committed alone. A fact has 5 to 24 words of a
vocabulary of 50,000, distributed as in natural text. A third of the measured facts repeat an entry
with one word changed. Vectors are synthetic (benchmarks/support/synthetic_vectors.py).
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.recall_latency import VOCABULARY, Texts, word
from benchmarks.support.synthetic_vectors import SyntheticVectors
from memrelay.memory.engine.store import Store
from memrelay.memory.models.named_memories.entries import NewEntry, write_entry
from memrelay.memory.records.ids import derive_guid
from memrelay.memory.search.embedding.embedder import EmbeddingOptions
from memrelay.memory.search.embedding.loading import LazyEmbedder
from memrelay.memory.search.embedding.questions import EmbeddedQuestion, QuestionEmbedder
from memrelay.memory.search.pool import Pool, SemanticResources

SIZES = (1_000, 10_000, 100_000)
MEMORY, BATCH = "mem_bench", 500


class Facts:
    """A source of facts. It remembers them, so that it can repeat one."""

    def __init__(self) -> None:
        self._texts, self._chance, self._count = (
            Texts(),
            np.random.default_rng(3),
            time.time_ns() // 1000,
        )
        self._written: list[str] = []

    def make_new(self, count: int) -> list[str]:
        """Return new facts."""
        made = [" ".join(text.split()[:24]) for text in self._texts.make_records(count)]
        self._written += made
        return made

    def make_measured(self, count: int) -> list[str]:
        """Return facts to measure: two of three are new, one is similar to an entry."""
        return [
            self._make_similar() if number % 3 == 0 else text
            for number, text in enumerate(self.make_new(count))
        ]

    def make_entry(self, text: str, **keys: Any) -> NewEntry:
        """Return an entry to write, with a new guid and time."""
        self._count += 1
        return NewEntry(
            derive_guid("be9c4001", f"{self._count}-0", "bench", 1),
            MEMORY,
            text,
            self._count,
            **keys,
        )

    def _make_similar(self) -> str:
        words = self._written[int(self._chance.integers(len(self._written)))].split()
        words[int(self._chance.integers(len(words)))] = word(int(self._chance.integers(VOCABULARY)))
        return " ".join(words)


class Figures(NamedTuple):
    """Measurements of the writes to one memory. Times are in milliseconds."""

    entries: int
    vectors: bool
    cpu_p50: float
    cpu_p95: float
    wall_p50: float
    wall_p95: float
    created: int
    updated: int
    skipped: int
    load: float  # load average over one minute at the end

    def __str__(self) -> str:
        return (
            f"{self.entries:>8,} entries {'with' if self.vectors else 'no'} vectors".ljust(32)
            + f"CPU p50 {self.cpu_p50:5.2f} p95 {self.cpu_p95:5.2f}  "
            f"wall p50 {self.wall_p50:5.2f} p95 {self.wall_p95:5.2f} ms  "
            f"{self.created} created, {self.updated} updated, {self.skipped} skipped  "
            f"load {self.load:.1f}"
        )


def fill(store: Store, entries: int, facts: Facts, vectors: SyntheticVectors | None) -> None:
    """Write new entries in batches."""
    for _ in range(0, entries, BATCH):
        texts = facts.make_new(BATCH)
        with store.transaction() as tx:
            for text, question in zip(texts, make_questions(texts, vectors), strict=True):
                write_entry(tx, facts.make_entry(text, mode="create"), question)


def make_questions(
    texts: list[str], vectors: SyntheticVectors | None
) -> Iterator[EmbeddedQuestion | None]:
    """Return the question vector of each text, or None without vectors."""
    if vectors is None:
        return iter([None] * len(texts))
    return (EmbeddedQuestion(vector, vectors) for vector in vectors.embed(texts))


def measure(
    store: Store, writes: int, facts: Facts, vectors: SyntheticVectors | None
) -> list[tuple[float, float, str]]:
    """Return (CPU ms, wall ms, action) of each write."""
    texts, measured = facts.make_measured(writes), []
    for text, question in zip(texts, make_questions(texts, vectors), strict=True):
        started_s, started_cpu_s = time.perf_counter(), time.process_time()
        with store.transaction() as tx:
            written = write_entry(tx, facts.make_entry(text), question)
        measured.append(
            (
                (time.process_time() - started_cpu_s) * 1000,
                (time.perf_counter() - started_s) * 1000,
                written.action,
            )
        )
    return measured


def run(entries: int, writes: int, folder: Path, *, with_vectors: bool) -> Figures:
    """Measure one memory size. Fill its store first if it is new."""
    path = folder / f"entries-{entries}{'-vectors' if with_vectors else ''}.db"
    facts, vectors = Facts(), SyntheticVectors() if with_vectors else None
    is_new = not path.exists()
    store = Store(
        "bench/memories",
        path,
        SemanticResources(QuestionEmbedder(LazyEmbedder(EmbeddingOptions("none"))), Pool()),
    )
    if is_new:
        fill(store, entries, facts, vectors)
    else:
        facts.make_new(entries)
    measure(store, 10, facts, vectors)  # warm up the caches
    cpu, wall, actions = zip(*measure(store, writes, facts, vectors), strict=True)
    store.close()
    p50, p95 = np.percentile(cpu, [50, 95])
    wall_p50, wall_p95 = np.percentile(wall, [50, 95])
    counts = [actions.count(action) for action in ("created", "updated", "skipped")]
    return Figures(
        entries,
        with_vectors,
        *(round(float(one), 2) for one in (p50, p95, wall_p50, wall_p95)),
        *counts,
        round(os.getloadavg()[0], 1),
    )


def main() -> None:
    """Run the benchmark for all sizes or the given ones."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--entries", type=int, action="append")
    parser.add_argument("--writes", type=int, default=300)
    parser.add_argument("--keep", type=Path, help="folder that keeps the stores for the next run")
    parser.add_argument("--json", type=Path, help="file for the results")
    given = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for entries in given.entries or SIZES:
            for with_vectors in (False, True):
                found.append(
                    run(
                        entries, given.writes, given.keep or Path(folder), with_vectors=with_vectors
                    )
                )
                print(found[-1], flush=True)
    if given.json:
        given.json.write_bytes(
            orjson.dumps([one._asdict() for one in found], option=orjson.OPT_INDENT_2)
        )


if __name__ == "__main__":
    main()
