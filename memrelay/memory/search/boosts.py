"""Score factors of a ranked search: recency, importance and validity."""

from collections.abc import Callable
from functools import partial

import apsw
import numpy as np
from numpy.typing import NDArray

from memrelay.memory.engine.row_arrays import Rows
from memrelay.memory.engine.row_metadata import boost_values
from memrelay.memory.search.layout import Layout, Places
from memrelay.memory.search.query import Boosts
from memrelay.memory.search.results import Factor, Floats
from memrelay.memory.search.validity import LOWERED

DAY_MS = 86_400_000
SLOW = 12  # half-lives in which the second half of recency fades
MIN_FACTOR = 2.0**-60  # no factor is lower, so no score becomes 0
DEFAULT_IMPORTANCE = 0.5  # the importance of a record that has none


def boost_factors(connection: apsw.Connection, layout: Layout, boosts: Boosts) -> dict[str, Factor]:
    """Return the factors of the boosts that are set, by name."""

    def factor(name: str, places: Places) -> Floats:
        return BOOSTS[name](boost_values(connection, name, layout.row[places]), boosts).astype(
            np.float32
        )

    return {name: partial(factor, name) for name in BOOSTS if getattr(boosts, name)}


def validity_factors(not_valid: Rows, layout: Layout, places: Places) -> Floats:
    """Return `LOWERED` for the rows that are not valid, else 1."""
    return np.where(np.isin(layout.row[places], not_valid), LOWERED, 1).astype(np.float32)


def _recency(created_at: NDArray[np.float64], boosts: Boosts) -> NDArray[np.float64]:
    """Return factors from 1 (now or in the future) down to 1 - weight.

    Half of the weight fades with the half-life, the other half in twelve half-lives: a day, a
    month and a year all count.
    """
    half_life_ms = boosts.recency_days * DAY_MS
    halvings = np.maximum(np.nan_to_num((boosts.now_ms - created_at) / half_life_ms), 0)
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
