"""Measures of one answer, from 0 to 1. Each takes ids, best first, and gold: id -> relevance above
0."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from math import log2

from benchmarks.recall.collection import Measure, Question


def recall(found: Iterable[str], gold: Iterable[str], k: int) -> float:
    """Return the share of gold in the first k ids."""
    wanted = set(gold)
    return len(wanted.intersection(islice(found, k))) / len(wanted)


def ndcg(found: Iterable[str], gold: Mapping[str, float], k: int) -> float:
    """Return the discounted gain of the first k ids, divided by the best possible one. Gains are
    linear (Järvelin and Kekäläinen 2002)."""
    best = sorted(gold.values(), reverse=True)
    return _gain(gold.get(id_, 0.0) for id_ in islice(found, k)) / _gain(best[:k])


def threads_of(found: Iterable[str], threads: Mapping[str, str]) -> list[str]:
    """Return the threads in the order of their best documents."""
    return list(dict.fromkeys(threads[id_] for id_ in found))


def turn_recall(k: int) -> Measure:
    """Return a measure: the recall of documents."""

    def measure(found: Sequence[str], question: Question, threads: Mapping[str, str]) -> float:
        return recall(found, question.gold, k)

    return measure


def session_recall(k: int) -> Measure:
    """Return a measure: the recall of threads that contain gold."""

    def measure(found: Sequence[str], question: Question, threads: Mapping[str, str]) -> float:
        return recall(threads_of(found, threads), threads_of(question.gold, threads), k)

    return measure


def any_of(share: Measure) -> Measure:
    """Return a measure: 1 if the recall is above 0, else 0."""

    def measure(found: Sequence[str], question: Question, threads: Mapping[str, str]) -> float:
        return float(share(found, question, threads) > 0)

    return measure


def all_of(share: Measure) -> Measure:
    """Return a measure: 1 if the recall is complete, else 0."""

    def measure(found: Sequence[str], question: Question, threads: Mapping[str, str]) -> float:
        return float(share(found, question, threads) == 1)

    return measure


def any_found(k: int) -> Measure:
    """Return a measure: 1 if the first k documents contain gold, else 0."""
    return any_of(turn_recall(k))


def all_found(k: int) -> Measure:
    """Return a measure: 1 if the first k documents contain all gold, else 0."""
    return all_of(turn_recall(k))


def gain(k: int) -> Measure:
    """Return a measure: the nDCG of documents."""

    def measure(found: Sequence[str], question: Question, threads: Mapping[str, str]) -> float:
        return ndcg(found, question.gold, k)

    return measure


def _gain(values: Iterable[float]) -> float:
    return sum(value / log2(place + 2) for place, value in enumerate(values))
