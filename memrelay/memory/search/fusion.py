"""Fusion: combines the calibrated scores of the retrievers into one absolute score from 0 to 1."""

import numpy as np
from numpy.typing import NDArray

from memrelay.memory.search.results import Floats, RetrieverScores
from memrelay.memory.search.vector_retriever import VectorScores

# The share of vectors; the rest is that of words. From 0.25 to 0.4 score the same (docs/recall.md).
VECTOR_SHARE = 0.35
DATE_BOOST = 1.2  # the factor for records of a date or month that the question names
DATE_SCORE = 0.1  # the least word score of such a record if no other word is found


def fuse(text: RetrieverScores, vector: VectorScores, vector_share: float = VECTOR_SHARE) -> Floats:
    """Return the fused scores of records that at least one retriever finds.

    A record without a vector keeps its text score.
    """
    text_share = np.float32(1 - vector_share)
    together = text_share * text.score + np.float32(vector_share) * vector.score
    found = (text.score > 0) | (vector.score >= vector.min_score)
    scores: Floats = np.where(vector.known, together * found, text.score)
    return scores


def semantic_scores(vector: VectorScores) -> Floats:
    """Return the scores of the vector retriever alone; 0 below its minimum."""
    scores: Floats = vector.score * (vector.score >= vector.min_score)
    return scores


def boost_dated(scores: Floats, on_time: NDArray[np.bool_]) -> Floats:
    """Raise the scores of records whose date the question names; at most 1."""
    return np.minimum(np.where(on_time, np.float32(DATE_BOOST) * scores, scores), np.float32(1))


def raise_dated(scores: Floats, on_time: NDArray[np.bool_]) -> Floats:
    """Give the records of a date a word score, for a question such as "what did I do yesterday"."""
    return np.where(on_time, np.maximum(scores, np.float32(DATE_SCORE)), scores)
