"""The weights of the reranking, fitted to candidates whose relevance a known rule decides."""

from random import Random

import numpy as np
import pytest

from benchmarks.recall.collection import Question
from benchmarks.recall.weights import FEATURES, UNREAD, Asked, fit

NEAR = FEATURES.index("near")


def ask(random: Random, number: int) -> Asked:
    """Return a question with one relevant candidate: the best by its score plus 2 x `near`."""
    features = np.zeros((20, len(FEATURES)))
    features[:, 0] = [random.gauss(0, 1) for _ in features]
    features[:, NEAR] = [random.random() for _ in features]
    relevant = np.zeros(20, bool)
    relevant[np.argmax(features[:, 0] + 2 * features[:, NEAR])] = True
    ids = [f"D1:{place}" for place in range(20)]
    question = Question("?", {ids[relevant.argmax()]: 1.0})
    return Asked(number, question, ids, dict.fromkeys(ids, "session_1"), features, relevant)


def test_the_fitted_weights_are_those_of_the_rule() -> None:
    random = Random(1)
    asked = [ask(random, number % 2) for number in range(400)]

    weights = fit([one for one in asked if one.conversation == 0])

    assert weights[0] == 1 and weights[NEAR] == pytest.approx(2, rel=0.15)
    others = np.delete(weights, [0, NEAR])
    assert np.abs(others).max() < 1e-6
    unseen = [one for one in asked if one.conversation == 1]
    hits = [one.measure("turn@5", weights) for one in unseen]
    assert np.mean(hits) == 1 > np.mean([one.measure("turn@5", UNREAD) for one in unseen])
