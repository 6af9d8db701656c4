"""The labelled pairs, each with its cosine, in two halves that a hash makes: one was tuned on, the
other only measured."""

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from memrelay.memory.dedup.similarity import Similarity
from memrelay.memory.embedding.embedder import Embedder

FOLDER = Path(__file__).parent
SAME = ("paraphrase", "repeat")  # kinds that are the same fact; of all others none is


class Pair(NamedTuple):
    """Two facts, and what they are to each other."""

    kind: str
    new: str
    old: str

    @property
    def tuned(self) -> bool:
        """Whether it is of the half that was looked at."""
        return hashlib.sha256(f"{self.new}\t{self.old}".encode()).digest()[0] % 2 == 0


class Figures(NamedTuple):
    """How well duplicates are told."""

    right: int  # skipped, and the same
    wrong: int  # skipped, and not the same
    missed: int  # the same, and not skipped

    @property
    def precision(self) -> float:
        return self.right / max(self.right + self.wrong, 1)

    @property
    def recall(self) -> float:
        return self.right / max(self.right + self.missed, 1)


def read_pairs(name: str) -> list[Pair]:
    """Those of a file beside this one."""
    lines = FOLDER.joinpath(f"{name}.tsv").read_text("utf-8").splitlines()[1:]
    return [Pair(*line.split("\t")) for line in lines]


def cosines(pairs: Iterable[Pair], embedder: Embedder) -> dict[Pair, float]:
    """Of each pair."""
    pairs = list(pairs)
    texts = sorted({text for pair in pairs for text in (pair.new, pair.old)})
    rows = dict(zip(texts, embedder.embed(texts), strict=True))
    return {pair: float(rows[pair.new] @ rows[pair.old]) for pair in pairs}


def measure(pairs: Iterable[Pair], judge: Callable[[Pair], Similarity]) -> Figures:
    """What is skipped of them, at the document's threshold."""
    skipped = [(judge(pair).score >= 0.95, pair.kind in SAME) for pair in pairs]
    return Figures(
        skipped.count((True, True)), skipped.count((True, False)), skipped.count((False, True))
    )
