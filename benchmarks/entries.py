"""What a write to a named memory costs beside its embedding, in memories of 1,000, 10,000 and
100,000 entries.

    .venv/bin/python benchmarks/entries.py [--entries 100000] [--writes 300] [--keep FOLDER] [--json
    FILE]

Each write is compared with what is there, decided and committed by itself. Facts are made of 5 to
24 words, drawn as in natural
text from a vocabulary of 50,000; a third of those that are measured say again, with one word
changed, what an entry says.
Vectors are made too (benchmarks/made_vectors.py).
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

from benchmarks.support.synthetic_vectors import MadeVectors
from benchmarks.recall_latency import VOCABULARY, Texts, word
from memrelay.memory.embedding.embedder import EmbeddingOptions
from memrelay.memory.embedding.loading import LazyEmbedder
from memrelay.memory.embedding.questions import Question, Questions
from memrelay.memory.operations.entries_write import NewEntry, write_entry
from memrelay.memory.records.ids import derive_guid
from memrelay.memory.search.pool import Meaning, Pool
from memrelay.memory.sqlite.store import Store

SIZES = (1_000, 10_000, 100_000)
MEMORY, BATCH = "mem_bench", 500


class Facts:
    """Texts, and what is written."""

    def __init__(self) -> None:
        """None yet."""
        self._texts, self._chance, self._count = (
            Texts(),
            np.random.default_rng(3),
            time.time_ns() // 1000,
        )
        self._written: list[str] = []

    def many(self, count: int) -> list[str]:
        """New ones."""
        made = [" ".join(text.split()[:24]) for text in self._texts.many(count)]
        self._written += made
        return made

    def asked(self, count: int) -> list[str]:
        """Two of three new, one near to an entry."""
        return [
            self._alike() if number % 3 == 0 else text
            for number, text in enumerate(self.many(count))
        ]

    def entry(self, text: str, **keys: Any) -> NewEntry:
        """To be written."""
        self._count += 1
        return NewEntry(
            derive_guid("be9c4001", f"{self._count}-0", "bench", 1),
            MEMORY,
            text,
            self._count,
            **keys,
        )

    def _alike(self) -> str:
        words = self._written[int(self._chance.integers(len(self._written)))].split()
        words[int(self._chance.integers(len(words)))] = word(int(self._chance.integers(VOCABULARY)))
        return " ".join(words)


class Figures(NamedTuple):
    """Of the writes to one memory; ms."""

    entries: int
    vectors: bool
    cpu_p50: float
    cpu_p95: float
    wall_p50: float
    wall_p95: float
    created: int
    updated: int
    skipped: int
    load: float  # of the machine when it was over, over a minute

    def __str__(self) -> str:
        """A line of the table."""
        return (
            f"{self.entries:>8,} entries {'with' if self.vectors else 'no'} vectors".ljust(32)
            + f"CPU p50 {self.cpu_p50:5.2f} p95 {self.cpu_p95:5.2f}  wall p50 {self.wall_p50:5.2f} p95 {self.wall_p95:5.2f}"
            f" ms  {self.created} created, {self.updated} updated, {self.skipped} skipped  load {self.load:.1f}"
        )


def fill(store: Store, entries: int, facts: Facts, vectors: MadeVectors | None) -> None:
    """So many entries."""
    for _ in range(0, entries, BATCH):
        texts = facts.many(BATCH)
        with store.transaction() as tx:
            for text, question in zip(texts, questions(texts, vectors), strict=True):
                write_entry(tx, facts.entry(text, mode="create"), question)


def questions(texts: list[str], vectors: MadeVectors | None) -> Iterator[Question | None]:
    """Their vectors."""
    if vectors is None:
        return iter([None] * len(texts))
    return (Question(vector, vectors) for vector in vectors.embed(texts))


def measure(
    store: Store, writes: int, facts: Facts, vectors: MadeVectors | None
) -> list[tuple[float, float, str]]:
    """(CPU ms, wall ms, action) of each write."""
    texts, told = facts.asked(writes), []
    for text, question in zip(texts, questions(texts, vectors), strict=True):
        began, began_cpu = time.perf_counter(), time.process_time()
        with store.transaction() as tx:
            written = write_entry(tx, facts.entry(text), question)
        told.append(
            (
                (time.process_time() - began_cpu) * 1000,
                (time.perf_counter() - began) * 1000,
                written.action,
            )
        )
    return told


def run(entries: int, writes: int, folder: Path, *, with_vectors: bool) -> Figures:
    """One size."""
    path = folder / f"entries-{entries}{'-vectors' if with_vectors else ''}.db"
    facts, vectors = Facts(), MadeVectors() if with_vectors else None
    made = not path.exists()
    store = Store(
        "bench/memories", path, Meaning(Questions(LazyEmbedder(EmbeddingOptions("none"))), Pool())
    )
    if made:
        fill(store, entries, facts, vectors)
    else:
        facts.many(entries)
    measure(store, 10, facts, vectors)  # what is read once
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
    """All sizes, or those that are asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--entries", type=int, action="append")
    parser.add_argument("--writes", type=int, default=300)
    parser.add_argument(
        "--keep", type=Path, help="a folder for the stores, so that they are made once"
    )
    parser.add_argument("--json", type=Path, help="a file for the figures")
    asked = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for entries in asked.entries or SIZES:
            for with_vectors in (False, True):
                found.append(
                    run(
                        entries, asked.writes, asked.keep or Path(folder), with_vectors=with_vectors
                    )
                )
                print(found[-1], flush=True)
    if asked.json:
        asked.json.write_bytes(
            orjson.dumps([one._asdict() for one in found], option=orjson.OPT_INDENT_2)
        )


if __name__ == "__main__":
    main()
