"""A reference system: reciprocal rank fusion of others (Cormack, Clarke and Büttcher 2009)."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain

from benchmarks.recall.collection import Document
from benchmarks.recall.system import System

K = 60
DEPTH = 20  # length of the fused lists; with 100, the first ten are worse


class RankFusion:
    """Fuses the rankings of several systems, and closes them with itself."""

    def __init__(self, *rankings: System) -> None:
        self._rankings = rankings

    def ingest(self, documents: Sequence[Document]) -> None:
        """Ingest the documents into every system."""
        for ranking in self._rankings:
            ranking.ingest(documents)

    def search(self, question: str, limit: int) -> list[str]:
        """Return document ids by the sum of 1 / (60 + rank)."""
        return fuse(ranking.search(question, DEPTH) for ranking in self._rankings)[:limit]

    def close(self) -> None:
        """Close every system."""
        for ranking in self._rankings:
            ranking.close()


def fuse(lists: Iterable[Sequence[str]]) -> list[str]:
    """Return all ids of the lists, best first. Of equal ids the earlier one wins."""
    scores: dict[str, float] = defaultdict(float)
    for rank, id_ in chain.from_iterable(enumerate(found, start=1) for found in lists):
        scores[id_] += 1 / (K + rank)
    return sorted(scores, key=lambda id_: -scores[id_])
