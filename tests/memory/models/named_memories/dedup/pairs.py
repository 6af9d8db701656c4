"""Labeled pairs of facts and their cosines. A hash splits them into a development half and a half
that was only measured."""

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from memrelay.memory.models.named_memories.dedup.similarity import Similarity
from memrelay.memory.search.embedding.embedder import Embedder

FOLDER = Path(__file__).parent
SAME = ("paraphrase", "repeat")  # the kinds whose pairs are the same fact


class Pair(NamedTuple):
    """Two facts and the label of their relation."""

    kind: str
    new: str
    old: str

    @property
    def tuned(self) -> bool:
        """Whether the pair belongs to the development half."""
        return hashlib.sha256(f"{self.new}\t{self.old}".encode()).digest()[0] % 2 == 0


class Figures(NamedTuple):
    """Counts of correct and wrong decisions."""

    right: int  # skipped, and the same fact
    wrong: int  # skipped, but not the same fact
    missed: int  # the same fact, but not skipped

    @property
    def precision(self) -> float:
        return self.right / max(self.right + self.wrong, 1)

    @property
    def recall(self) -> float:
        return self.right / max(self.right + self.missed, 1)


def read_pairs(name: str) -> list[Pair]:
    """Read the pairs of NAME.tsv in this folder."""
    lines = FOLDER.joinpath(f"{name}.tsv").read_text("utf-8").splitlines()[1:]
    return [Pair(*line.split("\t")) for line in lines]


def cosines(pairs: Iterable[Pair], embedder: Embedder) -> dict[Pair, float]:
    """Return the cosine of each pair."""
    pairs = list(pairs)
    texts = sorted({text for pair in pairs for text in (pair.new, pair.old)})
    rows = dict(zip(texts, embedder.embed(texts), strict=True))
    return {pair: float(rows[pair.new] @ rows[pair.old]) for pair in pairs}


def measure(pairs: Iterable[Pair], judge: Callable[[Pair], Similarity]) -> Figures:
    """Count the pairs that `judge` scores at least 0.95, the documented threshold for a skip."""
    skipped = [(judge(pair).score >= 0.95, pair.kind in SAME) for pair in pairs]
    return Figures(
        skipped.count((True, True)), skipped.count((True, False)), skipped.count((False, True))
    )
