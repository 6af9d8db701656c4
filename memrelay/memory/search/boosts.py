"""Score factors of a ranked search: recency, importance, and the penalty for questions."""

from collections.abc import Callable
from functools import partial

import apsw
import numpy as np
from numpy.typing import NDArray

from memrelay.memory.engine.row_arrays import Rows
from memrelay.memory.engine.row_metadata import boost_values, contents
from memrelay.memory.search.layout import Layout, Places
from memrelay.memory.search.query import Boosts
from memrelay.memory.search.results import Factor, Floats
from memrelay.memory.search.validity import LOWERED

DAY_MS = 86_400_000
SLOW = 12  # half-lives in which the second half of recency fades
MAX_HALVINGS = 60.0  # older records lose no more
MIN_FACTOR = 2.0**-MAX_HALVINGS  # no factor is lower, so no score becomes 0
DEFAULT_IMPORTANCE = 0.5  # the importance of a record that has none

QUESTION_FACTOR = "asks"
# The penalty of a turn that is only a question. Values from 0.2 to 0.3 score the same.
QUESTION_PENALTY = 0.25
LONGEST = 4096  # bytes; the last question of a longer turn is a small share of it
MARKS = "?\uff1f\u061f"  # Latin, full-width (Chinese, Japanese), Arabic
# ends of the sentence before the question
ENDS = ". ", "! ", "? ", "\n", "\u3002", "\uff01", *MARKS[1:]


def boost_factors(connection: apsw.Connection, layout: Layout, boosts: Boosts) -> dict[str, Factor]:
    """Return the factors of the boosts that are set, by name."""

    def factor(name: str, places: Places) -> Floats:
        return BOOSTS[name](boost_values(connection, name, layout.row[places]), boosts).astype(
            np.float32
        )

    return {name: partial(factor, name) for name in BOOSTS if getattr(boosts, name)}


def question_factors(connection: apsw.Connection, layout: Layout, places: Places) -> Floats:
    """Return factors from 1 - QUESTION_PENALTY (a turn that is only a question) up to 1.

    A record that is no turn, or does not end with a question, has 1. Answers matter more than
    the question, which contains the same words. A quarter of LoCoMo's turns end with a question,
    but only an eighth of the answering turns do (docs/recall.md).
    """
    factors = np.ones(len(places), np.float32)
    turns = np.flatnonzero(layout.source[places] >= 0)
    texts = contents(connection, layout.row[places[turns]], LONGEST)
    factors[turns] -= np.float32(QUESTION_PENALTY) * np.array(
        [closing_question_share(text) for text in texts], np.float32
    )
    return factors


def validity_factors(not_valid: Rows, layout: Layout, places: Places) -> Floats:
    """Return `LOWERED` for the rows that are not valid, else 1."""
    return np.where(np.isin(layout.row[places], not_valid), LOWERED, 1).astype(np.float32)


def closing_question_share(text: str) -> float:
    """Return the share of the text taken by its closing question.

    Returns 0 if the text does not end with a question, and 1 if it is only a question.
    """
    text = text.strip()
    if not text.endswith(tuple(MARKS)):
        return 0.0
    before = text.rstrip(MARKS)
    begins = max((at + len(end) for end in ENDS if (at := before.rfind(end)) >= 0), default=0)
    return (len(text) - begins) / len(text)


def _recency(created_at: NDArray[np.float64], boosts: Boosts) -> NDArray[np.float64]:
    """Return factors from 1 (now or in the future) down to 1 - weight.

    Half of the weight fades with the half-life, the other half in twelve half-lives: a day, a
    month and a year all count.
    """
    halvings = np.clip(
        np.nan_to_num((boosts.now_ms - created_at) / (boosts.recency_days * DAY_MS)),
        0,
        MAX_HALVINGS,
    )
    fresh = (np.exp2(-halvings) + np.exp2(-halvings / SLOW)) / 2
    factor: NDArray[np.float64] = 1 - boosts.recency * (1 - fresh)
    return factor.clip(MIN_FACTOR)


def _importance(importance: NDArray[np.float64], boosts: Boosts) -> NDArray[np.float64]:
    """Return factors from 1 (most important) down to 1 - weight."""
    factor: NDArray[np.float64] = 1 - boosts.importance * (
        1 - np.nan_to_num(importance, nan=DEFAULT_IMPORTANCE)
    )
    return factor.clip(MIN_FACTOR)


BOOSTS: dict[str, Callable[[NDArray[np.float64], Boosts], NDArray[np.float64]]] = {
    "recency": _recency,
    "importance": _importance,
}
