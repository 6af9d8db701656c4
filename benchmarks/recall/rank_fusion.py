"""Reciprocal rank fusion of two systems (Cormack, Clarke and Büttcher 2009), as it is usually
done."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain

from benchmarks.recall.collection import Document
from benchmarks.recall.system import System

K = 60
DEPTH = 100  # of the lists that are fused


class RankFusion:
    """Both take everything in, and both are asked."""

    def __init__(self, *rankings: System) -> None:
        """They are closed with it."""
        self._rankings = rankings

    def ingest(self, documents: Sequence[Document]) -> None:
        """Into one after the other."""
        for ranking in self._rankings:
            ranking.ingest(documents)

    def search(self, question: str, limit: int) -> list[str]:
        """By the sum of 1 / (60 + rank)."""
        return fused(ranking.search(question, DEPTH) for ranking in self._rankings)[:limit]

    def close(self) -> None:
        """Both."""
        for ranking in self._rankings:
            ranking.close()


def fused(lists: Iterable[Sequence[str]]) -> list[str]:
    """All that is in the lists, best first; of equal ones the earlier."""
    scores: dict[str, float] = defaultdict(float)
    for rank, id_ in chain.from_iterable(enumerate(found, start=1) for found in lists):
        scores[id_] += 1 / (K + rank)
    return sorted(scores, key=lambda id_: -scores[id_])
