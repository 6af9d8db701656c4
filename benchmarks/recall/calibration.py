"""Prints the curve from the cosines of another embedder to the scale of MiniLM, without labels.

    .venv/bin/python benchmarks/recall/calibration.py --data FOLDER [--model bge]

Both models embed all questions and documents of the data sets in the folder. A cosine gets the
score that MiniLM has at the same quantile of all pairs of a question and a document of its store.
So thresholds and the fusion of words and vectors stay as they are. If the model has a center, the
mean cosine of a question with general sentences is subtracted first.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.recall.collection import Collection, Corpus
from benchmarks.recall.data_sets import collections
from memrelay.memory.engine.vectors import embedded_text
from memrelay.memory.search.embedding.embedder import Embedder, EmbeddingOptions
from memrelay.memory.search.embedding.loading import load

# Most pairs are unrelated, so the quantiles are dense at the top. 1 is the maximum.
QUANTILES = (0.05, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0)
Floats = NDArray[np.float32]


class Pairs(NamedTuple):
    """The cosines of all pairs of a data set, by each embedder in the same order."""

    name: str
    reference: Floats
    other: Floats


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", default="bge")
    options = parser.parse_args()
    embedders = [load(EmbeddingOptions(model)) for model in ("local", options.model)]
    measured = [_measure(one, embedders) for one in collections(options.data)]
    for pairs in [*measured, _pool(measured)]:
        _print(pairs)


def _measure(collection: Collection, embedders: Sequence[Embedder]) -> Pairs:
    reference, other = (
        np.concatenate(list(_cosines(collection.corpora, embedder))) for embedder in embedders
    )
    return Pairs(collection.name, reference, other)


def _cosines(corpora: Sequence[Corpus], embedder: Embedder) -> Iterator[Floats]:
    """Yield the cosines of each store's questions with its documents."""
    for corpus in corpora:
        documents = embedder.embed(
            [embedded_text(bool(one.thread), one.source, one.text) for one in corpus.documents]
        )
        questions = embedder.embed([one.text for one in corpus.questions])
        center = embedder.calibration.center
        means = 0.0 if center is None else (questions @ center)[:, None]
        yield (questions @ documents.T - means).ravel()


def _pool(measured: Sequence[Pairs]) -> Pairs:
    return Pairs(
        "all",
        np.concatenate([one.reference for one in measured]),
        np.concatenate([one.other for one in measured]),
    )


def _print(pairs: Pairs) -> None:
    print(f"{pairs.name}: {len(pairs.reference):,} pairs")
    print("quantile  cosine   score")
    for quantile in QUANTILES:
        cosine, score = (np.quantile(one, quantile) for one in (pairs.other, pairs.reference))
        print(f"{quantile:<8}  {cosine:6.3f}  {score:6.3f}")


if __name__ == "__main__":
    main()
