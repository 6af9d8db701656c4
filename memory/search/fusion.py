"""Fusion: one score of what the arms say, absolute and from 0 to 1 as theirs are."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from memrelay.memory.search.results import Floats, Found
from memrelay.memory.search.text_arm import SPEAKER
from memrelay.memory.search.vector_arm import VectorFound

TEXT, VECTOR = (
    0.65,
    0.35,
)  # shares; 0.25 to 0.4 for the vectors is one plateau (docs/search-quality.md)
# of a vector's least score, where a record is found for its meaning and words were looked for too
BESIDE_WORDS = 1.05
TIMELY = 1.2  # how much more a record counts of a day or a month that the question names


def fused(text: Found, vector: VectorFound) -> Floats:
    """Of what either arm finds by itself. A record that has no vector yet counts as its text
    says."""
    together = np.float32(TEXT) * text.score + np.float32(VECTOR) * vector.score
    found = (text.score > 0) | (vector.score >= vector.least)
    scores: Floats = np.where(vector.known, together * found, text.score)
    return scores


def beside_words(vector: VectorFound) -> VectorFound:
    """The vectors' arm where words are looked for too: what these do not find must mean a little
    more to be found."""
    return replace(vector, least=BESIDE_WORDS * vector.least)


def by_themselves(text: Found, vector: VectorFound, spoken: NDArray[np.bool_] | None) -> Floats:
    """What each record is worth without its neighbours: the meaning of it alone, and the shares the
    other way round.

    `spoken` are the turns of the one speaker whom the query names: their meaning counts more too,
    as their words do.
    Measured (docs/search-quality.md): where words have found ten records, the threads that are left share
    few with the question.
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
    """Of the vectors alone."""
    scores: Floats = vector.score * (vector.score >= vector.least)
    return scores


def timely(scores: Floats, on_time: NDArray[np.bool_]) -> Floats:
    """More of those that are of a time that the question names; still from 0 to 1."""
    return np.minimum(np.where(on_time, np.float32(TIMELY) * scores, scores), np.float32(1))
