"""One system on one collection: the quality and latency of each answer, and the memory."""

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
from benchmarks.recall.queries.nonsense import make_queries
from benchmarks.recall.system import System

DEPTH = 100  # documents per answer


@dataclass(frozen=True, slots=True)
class Trial:
    """The results of one system on one collection."""

    categories: Sequence[str]  # of every question, corpora in order
    values: dict[str, Sequence[float]]  # measure -> value of every question
    documents: int
    ingest_s: float
    search_s: Sequence[float]  # of every question
    nonsense_share: float  # share of nonsense queries with a hit
    empty_share: float  # share of the questions without a hit
    peak_bytes: int  # peak memory of the process


class _Answers(NamedTuple):
    """The results of one corpus."""

    found: list[list[str]]  # of every question
    ingest_s: float
    search_s: list[float]
    nonsense_share: float


def run(collection: Collection, make: Callable[[Path], System]) -> Trial:
    """Run the system on each corpus, in a new system and a temporary folder."""
    all_answers = [_answer_all(corpus, make) for corpus in collection.corpora]
    return Trial(
        [question.category for corpus in collection.corpora for question in corpus.questions],
        score(collection, [found for answers in all_answers for found in answers.found]),
        sum(len(corpus.documents) for corpus in collection.corpora),
        sum(answers.ingest_s for answers in all_answers),
        [seconds for answers in all_answers for seconds in answers.search_s],
        mean(answers.nonsense_share for answers in all_answers),
        mean(not found for answers in all_answers for found in answers.found),
        _peak_bytes(),
    )


def score(collection: Collection, answers: Sequence[Sequence[str]]) -> dict[str, Sequence[float]]:
    """Return measure -> value of every question. `answers` has the ids of each question's hits,
    corpora in order."""
    measures = {**collection.measures, **collection.hits}
    values: dict[str, list[float]] = {name: [] for name in measures}
    remaining = iter(answers)
    for corpus in collection.corpora:
        threads = {document.id: document.thread for document in corpus.documents}
        for question in corpus.questions:
            found = next(remaining)
            for name, measure in measures.items():
                values[name].append(measure(found, question, threads))
    return {**values}


def _answer_all(corpus: Corpus, make: Callable[[Path], System]) -> _Answers:
    with TemporaryDirectory() as folder:
        system = make(Path(folder))
        try:
            started_s = time.perf_counter()
            system.ingest(corpus.documents)
            ingest_s = time.perf_counter() - started_s
            _search_timed(system, corpus.questions[0].text)  # warm up the caches
            timed = [_search_timed(system, question.text) for question in corpus.questions]
            nonsense_share = mean(bool(system.search(query, 1)) for query in make_queries())
        finally:
            system.close()
    return _Answers(
        [found for found, _ in timed], ingest_s, [seconds for _, seconds in timed], nonsense_share
    )


def _search_timed(system: System, question: str) -> tuple[list[str], float]:
    started_s = time.perf_counter()
    found = system.search(question, DEPTH)
    return found, time.perf_counter() - started_s


def _peak_bytes() -> int:
    """Return the peak memory of this process. On Linux, rusage includes the parent's peak, so read
    /proc."""
    status = Path("/proc/self/status")
    if status.exists():
        return next(
            int(line.split()[1]) << 10
            for line in status.read_text().splitlines()
            if line.startswith("VmHWM")
        )
    return getrusage(RUSAGE_SELF).ru_maxrss << (0 if sys.platform == "darwin" else 10)
