"""usage: weights.py --data FOLDER [--model MODEL]. Fit the weights of the reranking to LoCoMo.

Each conversation is scored with weights that were fitted to the others, so the figures hold for
unseen conversations. They are printed next to the order without reranking and to
that of the product. The last line has the weights for all conversations, in log odds of the score,
as in memrelay/memory/search/rerank.py.

The loss of a question is that of its relevant candidates among the best hundred, each against all
irrelevant ones (ListMLE for sets). A question with n of them has the weight sqrt(n).
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.recall import locomo
from benchmarks.recall.bootstrap import interval
from benchmarks.recall.collection import Collection, Corpus, Question
from benchmarks.recall.data_sets import collections
from benchmarks.recall.product import MOST_BYTES, Product
from memrelay.memory.search import ranker, rerank
from memrelay.memory.search.embedding.embedder import Model
from memrelay.memory.search.explanation import MAX_EXPLAINED
from memrelay.memory.search.search import SearchInput, search_explained

FEATURES = ("score", *rerank.WEIGHTS)
NOW = np.array([1.0, *rerank.WEIGHTS.values()])
UNREAD = np.array([1.0, *([0.0] * len(rerank.WEIGHTS))])
STEPS, STEP, DECAY = 400, 0.1, 0.9
PENALTY = 1e-3  # of the squared weights, for features of variance 1
Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with its best candidates, by score."""

    conversation: int
    question: Question
    ids: Sequence[str]
    threads: Mapping[str, str]
    features: Matrix  # candidate, feature
    relevant: NDArray[np.bool_]

    def measure(self, name: str, weights: Matrix) -> float:
        """Return a measure of LoCoMo for the order by these weights."""
        order = np.argsort(-(self.features @ weights), kind="stable")
        return locomo.MEASURES[name]([self.ids[at] for at in order], self.question, self.threads)


def ask_all(collection: Collection, model: Model) -> Iterator[Asked]:
    """Yield the questions that have candidates."""
    # The explanation has the signals of so many hits.
    rerank.READ = ranker.READ = MAX_EXPLAINED
    for number, corpus in enumerate(collection.corpora):
        with TemporaryDirectory() as folder:
            product = Product(Path(folder), model)
            try:
                product.ingest(corpus.documents)
                yield from _ask(product, number, corpus)
            finally:
                product.close()


def _ask(product: Product, number: int, corpus: Corpus) -> Iterator[Asked]:
    threads = {document.id: document.thread for document in corpus.documents}
    for question in corpus.questions:
        wanted = SearchInput(question.text, MOST_BYTES, mode="hybrid", limit=MAX_EXPLAINED)
        _, explanation = search_explained(product.store, wanted)
        ids = [product.ids[hit.guid] for hit in explanation.hits]
        rows = [
            [
                np.log(hit.score / max(1 - hit.score, 1e-6)),
                *(hit.signals.get(name, 0.0) / one for name, one in rerank.WEIGHTS.items()),
            ]
            for hit in explanation.hits
        ]
        if rows:
            relevant = np.array([one in question.gold for one in ids])
            yield Asked(number, question, ids, threads, np.array(rows), relevant)


def fit(asked: Sequence[Asked]) -> Matrix:
    """Return the weights, with 1 for the score."""
    used = [one for one in asked if one.relevant.any() and not one.relevant.all()]
    deviation = np.concatenate([one.features for one in used]).std(axis=0) + 1e-9
    scaled = [(one.features / deviation, one.relevant) for one in used]
    weights = np.zeros(len(FEATURES))
    momentum = np.zeros(len(FEATURES))
    for _ in range(STEPS):
        gradient = sum(
            (_gradient(features, relevant, weights) for features, relevant in scaled),
            PENALTY * len(used) * weights,
        )
        momentum = DECAY * momentum - STEP * gradient / len(used)
        weights = weights + momentum
    found: Matrix = weights / deviation
    return found / found[0]


def _gradient(features: Matrix, relevant: NDArray[np.bool_], weights: Matrix) -> Matrix:
    scores = features @ weights
    odds = np.exp(scores - scores.max())
    others = odds[~relevant].sum()
    misses = others / (odds[relevant] + others)
    change = np.zeros(len(odds))
    change[relevant] = -misses
    change[~relevant] = odds[~relevant] * (1 / (odds[relevant] + others)).sum()
    found: Matrix = change @ features / np.sqrt(relevant.sum())
    return found


def main() -> int:
    """Print the scores of left-out conversations and the weights."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", choices=get_args(Model), default="none")
    given = parser.parse_args()
    (conversations,) = (one for one in collections(given.data) if one.name == "locomo")
    asked = list(ask_all(conversations, given.model))
    fitted = {
        left_out: fit([one for one in asked if one.conversation != left_out])
        for left_out in sorted({one.conversation for one in asked})
    }
    for group in ("", "multi-hop"):
        chosen = [one for one in asked if group in ("", one.question.category)]
        for name in locomo.MEASURES:
            unread = [one.measure(name, UNREAD) for one in chosen]
            left_out = [one.measure(name, fitted[one.conversation]) for one in chosen]
            now = [one.measure(name, NOW) for one in chosen]
            gain = [new - old for new, old in zip(left_out, unread, strict=True)]
            low, high = interval(gain)
            print(
                f"{group or 'all':10} {name:11} not reranked {np.mean(unread):.3f}, "
                f"weights of the others {np.mean(left_out):.3f} "
                f"({np.mean(gain):+.3f}, {low:+.3f} to {high:+.3f}), as now {np.mean(now):.3f}"
            )
    weights = zip(FEATURES, fit(asked), strict=True)
    print(", ".join(f"{name} {weight:.2f}" for name, weight in weights))
    return 0


if __name__ == "__main__":
    sys.exit(main())
