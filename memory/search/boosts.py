"""Boosts of a ranked search, as factors on its scores."""

from collections.abc import Callable
from functools import partial

import apsw
import numpy as np
from numpy.typing import NDArray

from memrelay.memory.search.layout import Layout, Places
from memrelay.memory.search.query import Boosts
from memrelay.memory.search.results import Factor, Floats
from memrelay.memory.sqlite.outline import boost_values, contents

DAY_MS = 86_400_000
MOST_HALVINGS = 60.0  # after which an age counts no more
LEAST = 2.0**-MOST_HALVINGS  # of a factor: no score becomes 0
UNRATED = 0.5  # the importance of what says none


def boosting(connection: apsw.Connection, layout: Layout, boosts: Boosts) -> dict[str, Factor]:
    """What scores are multiplied by, for each boost that is asked for."""

    def factor(name: str, places: Places) -> Floats:
        return FACTOR[name](boost_values(connection, name, layout.row[places]), boosts).astype(
            np.float32
        )

    return {name: partial(factor, name) for name in FACTOR if getattr(boosts, name)}


def _recency(created_at: NDArray[np.float64], boosts: Boosts) -> NDArray[np.float64]:
    """From 1, for what is of now or of a time to come, down to 1 - weight."""
    halvings = np.clip(
        np.nan_to_num((boosts.now_ms - created_at) / (boosts.recency_days * DAY_MS)),
        0,
        MOST_HALVINGS,
    )
    factor: NDArray[np.float64] = 1 - boosts.recency * (1 - np.exp2(-halvings))
    return factor.clip(LEAST)


def _importance(importance: NDArray[np.float64], boosts: Boosts) -> NDArray[np.float64]:
    """From 1, for what is as important as can be, down to 1 - weight."""
    factor: NDArray[np.float64] = 1 - boosts.importance * (
        1 - np.nan_to_num(importance, nan=UNRATED)
    )
    return factor.clip(LEAST)


FACTOR: dict[str, Callable[[NDArray[np.float64], Boosts], NDArray[np.float64]]] = {
    "recency": _recency,
    "importance": _importance,
}


# Turns that end by question_penalty count less: what was asked for stands where it was answered, and a
# question has its words too.
#
# Measured (docs/search-quality.md): of LoCoMo's turns a quarter end with a question, of those that answer one
# an eighth.

NAME = "asks"
# how much less a turn counts that is a question and nothing else; 0.2 to 0.3 is one plateau
CLOSING = 0.25
LONGEST = 4096  # bytes of a turn that is looked at; of a longer one, its last question is little
MARKS = "?\uff1f\u061f"  # Latin's, the wide one of Chinese and Japanese, Arabic's
ENDS = ". ", "! ", "? ", "\n", "\u3002", "\uff01", *MARKS[1:]  # of the sentence before


def question_penalty(connection: apsw.Connection, layout: Layout, places: Places) -> Floats:
    """From 1, for what does not end by question_penalty and for what is no turn, down to 1 - CLOSING."""
    factors = np.ones(len(places), np.float32)
    turns = np.flatnonzero(layout.source[places] >= 0)
    texts = contents(connection, layout.row[places[turns]], LONGEST)
    factors[turns] -= np.float32(CLOSING) * np.array(
        [closing_question(text) for text in texts], np.float32
    )
    return factors


def closing_question(text: str) -> float:
    """The share of a text that the question has with which it ends: 0 where it ends otherwise, 1
    where it is no more."""
    text = text.strip()
    if not text.endswith(tuple(MARKS)):
        return 0.0
    before = text.rstrip(MARKS)
    begins = max((at + len(end) for end in ENDS if (at := before.rfind(end)) >= 0), default=0)
    return (len(text) - begins) / len(text)
