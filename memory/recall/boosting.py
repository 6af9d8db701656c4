"""Boosts of a ranked search, as factors on its scores."""

from collections.abc import Callable
from functools import partial

import apsw
import numpy as np
from numpy.typing import NDArray

from memory.boosts import Boosts
from memory.recall.layout import Layout, Places
from memory.recall.scene import Floats
from memory.recall.weights import Factor
from memory.sqlite.boosts import boost_values

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
