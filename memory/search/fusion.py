"""Fusion: combines the calibrated scores of the arms into one absolute score from 0 to 1."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from memrelay.memory.search.results import Floats, Found
from memrelay.memory.search.text_arm import SPEAKER
from memrelay.memory.search.vector_arm import VectorFound

# Shares of the arms. Vector shares from 0.25 to 0.4 score the same (docs/search-quality.md).
TEXT, VECTOR = 0.65, 0.35
# In a hybrid search, the minimum vector score is higher by this factor.
BESIDE_WORDS = 1.05
TIMELY = 1.2  # the factor for records of a date or month that the question names


def fused(text: Found, vector: VectorFound) -> Floats:
    """Return the fused scores of records that at least one arm finds.

    A record without a vector keeps its text score.
    """
    together = np.float32(TEXT) * text.score + np.float32(VECTOR) * vector.score
    found = (text.score > 0) | (vector.score >= vector.least)
    scores: Floats = np.where(vector.known, together * found, text.score)
    return scores


def beside_words(vector: VectorFound) -> VectorFound:
    """Raise the vector arm's minimum score, because words are searched too."""
    return replace(vector, least=BESIDE_WORDS * vector.least)


def by_themselves(text: Found, vector: VectorFound, spoken: NDArray[np.bool_] | None) -> Floats:
    """Return scores of records without their neighbors; the vector arm has the larger share.

    `spoken` marks the turns of the one speaker that the query names: their vector score is
    raised too. Ten records found by words leave threads that share few words with the question
    (docs/search-quality.md).
    """
    alone = (
        vector.alone
        if spoken is None
        else np.where(spoken, np.float32(SPEAKER) * vector.alone, vector.alone)
    )
    together = np.float32(VECTOR) * text.score + np.float32(TEXT) * alone
    scores: Floats = np.where(vector.known, together, text.score)
    return scores


def by_meaning(vector: VectorFound) -> Floats:
    """Return the scores of the vector arm alone; 0 below its minimum."""
    scores: Floats = vector.score * (vector.score >= vector.least)
    return scores


def timely(scores: Floats, on_time: NDArray[np.bool_]) -> Floats:
    """Raise the scores of records whose date the question names; at most 1."""
    return np.minimum(np.where(on_time, np.float32(TIMELY) * scores, scores), np.float32(1))
