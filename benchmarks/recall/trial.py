"""One system on one collection: what each question was answered worth, how fast, and in how much
memory."""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from statistics import mean
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks.recall.collection import Collection, Corpus
from benchmarks.recall.nonsense import queries
from benchmarks.recall.system import System

DEPTH = 100  # documents that each question is answered with


@dataclass(frozen=True, slots=True)
class Trial:
    """What was measured."""

    categories: Sequence[str]  # of the questions, all corpora's in order
    values: dict[str, Sequence[float]]  # measure -> of each question
    documents: int
    ingest_s: float
    search_s: Sequence[float]  # of each question
    fooled: float  # the share of nonsense that was answered
    peak_bytes: int  # the most memory that the process has had


class _Answers(NamedTuple):
    """Of one corpus."""

    found: list[list[str]]  # of each question
    ingest_s: float
    search_s: list[float]
    fooled: float


def run(collection: Collection, make: Callable[[Path], System]) -> Trial:
    """Each corpus goes into a system of its own, in a folder that is gone afterwards."""
    values: dict[str, list[float]] = {name: [] for name in collection.measures}
    everything = [_answers(corpus, make) for corpus in collection.corpora]
    for corpus, answers in zip(collection.corpora, everything, strict=True):
        threads = {document.id: document.thread for document in corpus.documents}
        for question, found in zip(corpus.questions, answers.found, strict=True):
            for name, measure in collection.measures.items():
                values[name].append(measure(found, question, threads))
    return Trial(
        [question.category for corpus in collection.corpora for question in corpus.questions],
        {**values},
        sum(len(corpus.documents) for corpus in collection.corpora),
        sum(answers.ingest_s for answers in everything),
        [seconds for answers in everything for seconds in answers.search_s],
        mean(answers.fooled for answers in everything),
        _peak_bytes(),
    )


def _answers(corpus: Corpus, make: Callable[[Path], System]) -> _Answers:
    with TemporaryDirectory() as folder:
        system = make(Path(folder))
        try:
            began = time.perf_counter()
            system.ingest(corpus.documents)
            ingest_s = time.perf_counter() - began
            _timed(
                system, corpus.questions[0].text
            )  # what is read at the first search is read once
            timed = [_timed(system, question.text) for question in corpus.questions]
            fooled = mean(bool(system.search(query, 1)) for query in queries())
        finally:
            system.close()
    return _Answers(
        [found for found, _ in timed], ingest_s, [seconds for _, seconds in timed], fooled
    )


def _timed(system: System, question: str) -> tuple[list[str], float]:
    began = time.perf_counter()
    found = system.search(question, DEPTH)
    return found, time.perf_counter() - began


def _peak_bytes() -> int:
    """Of this process. Linux hands its parent's peak down in rusage, and has its own in /proc."""
    status = Path("/proc/self/status")
    if status.exists():
        return next(
            int(line.split()[1]) << 10
            for line in status.read_text().splitlines()
            if line.startswith("VmHWM")
        )
    return getrusage(RUSAGE_SELF).ru_maxrss << (0 if sys.platform == "darwin" else 10)
