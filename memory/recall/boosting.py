"""Boosts of a ranked search: exact, though only the records are looked up that can be among the best."""
from collections.abc import Callable
from dataclasses import replace

import apsw
import numpy as np
from numpy.typing import NDArray

from memory.boosts import Boosts
from memory.recall.layout import Places
from memory.recall.ranked import Ranked, best, candidates
from memory.recall.scene import Floats
from memory.sqlite.boosts import boost_values

DAY_MS = 86_400_000
MOST_HALVINGS = 60.0   # after which an age counts no more
LEAST = 2.0 ** -MOST_HALVINGS   # of a factor: no score becomes 0
UNRATED = 0.5          # the importance of what says none
FIRST = 256            # how many are looked up at first; then twice as many each time


def boosted(connection: apsw.Connection, ranked: Ranked, boosts: Boosts, limit: int) -> Ranked:
    """The best by their scores times the factors of what is asked for.

    Factors are at most 1, so who comes after a record that has the last of the best scores without them can be left out.
    """
    scores, scene = ranked.scores.copy(), ranked.scene
    order = candidates(scores, scene)
    order = best(scores, order, scene, len(order))
    factors = {name: np.ones(len(scores), np.float32) for name in FACTOR if getattr(boosts, name)}
    seen = 0
    while limit and seen < len(order) and not _settled(scores, order, seen, limit):
        some = order[seen:seen + max(limit, FIRST, seen)]
        for name, by_place in factors.items():
            by_place[some] = FACTOR[name](boost_values(connection, name, scene.layout.row[some]), boosts)
            scores[some] *= by_place[some]
        seen += len(some)
    return replace(ranked, places=best(scores, order[:seen], scene, limit), scores=scores, factors=factors)


def _settled(scores: Floats, order: Places, seen: int, limit: int) -> bool:
    """Whether none of those that were not seen can be among the best: they have their scores without factors yet."""
    return seen >= limit and bool(np.partition(scores[order[:seen]], -limit)[-limit] > scores[order[seen]])


def _recency(created_at: NDArray[np.float64], boosts: Boosts) -> NDArray[np.float64]:
    """From 1, for what is of now or of a time to come, down to 1 - weight."""
    halvings = np.clip(np.nan_to_num((boosts.now_ms - created_at) / (boosts.recency_days * DAY_MS)), 0, MOST_HALVINGS)
    factor: NDArray[np.float64] = 1 - boosts.recency * (1 - np.exp2(-halvings))
    return factor.clip(LEAST)


def _importance(importance: NDArray[np.float64], boosts: Boosts) -> NDArray[np.float64]:
    """From 1, for what is as important as can be, down to 1 - weight."""
    factor: NDArray[np.float64] = 1 - boosts.importance * (1 - np.nan_to_num(importance, nan=UNRATED))
    return factor.clip(LEAST)


FACTOR: dict[str, Callable[[NDArray[np.float64], Boosts], NDArray[np.float64]]] = {
    "recency": _recency, "importance": _importance}
