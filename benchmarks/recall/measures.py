"""Measures of one answer, from 0 to 1. Each takes ids, best first, and the gold: id -> how relevant
it is, above 0."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from math import log2

from benchmarks.recall.collection import Measure, Question


def recall(found: Iterable[str], gold: Iterable[str], k: int) -> float:
    """The share of the gold that is among the first k."""
    wanted = set(gold)
    return len(wanted.intersection(islice(found, k))) / len(wanted)


def ndcg(found: Iterable[str], gold: Mapping[str, float], k: int) -> float:
    """Discounted gain of the first k beside the best that were possible: Järvelin and Kekäläinen
    2002, gains as they are."""
    best = sorted(gold.values(), reverse=True)
    return _gain(gold.get(id_, 0.0) for id_ in islice(found, k)) / _gain(best[:k])


def threads_of(found: Iterable[str], threads: Mapping[str, str]) -> list[str]:
    """The threads in the order in which a document of theirs is found first: a thread is worth its
    best document."""
    return list(dict.fromkeys(threads[id_] for id_ in found))


def turn_recall(k: int) -> Measure:
    """Recall of documents."""

    def measure(found: Sequence[str], question: Question, threads: Mapping[str, str]) -> float:
        return recall(found, question.gold, k)

    return measure


def session_recall(k: int) -> Measure:
    """Recall of the threads that hold gold."""

    def measure(found: Sequence[str], question: Question, threads: Mapping[str, str]) -> float:
        return recall(threads_of(found, threads), threads_of(question.gold, threads), k)

    return measure


def gain(k: int) -> Measure:
    """nDCG of documents."""

    def measure(found: Sequence[str], question: Question, threads: Mapping[str, str]) -> float:
        return ndcg(found, question.gold, k)

    return measure


def _gain(values: Iterable[float]) -> float:
    return sum(value / log2(place + 2) for place, value in enumerate(values))
