"""Spreads a ranked result over threads: from the tenth record on, missing threads come first.

Neighbors raise each other's scores, so ten records often come from three or four threads.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from memrelay.memory.search.layout import Places
from memrelay.memory.search.rerank import Reader
from memrelay.memory.search.results import (
    Floats,
    Ranked,
    ScoreFactors,
    best_places,
    candidate_places,
    rank_order,
)

KEPT = 9  # records that keep their position
THREADS = 10  # threads that appear before one repeats
MIN_SCORED_TURNS = 32  # turns that are scored, in addition to the best of each thread
# The share of near words in the order of threads. Values from 0.67 to 0.8 score the same.
READING_SHARE = 0.75
NO_PLACES: Places = np.zeros(0, np.int64)
NEIGHBORS_READ = 1  # turns on each side that the reader reads with a turn


def diversify(
    ranked: Ranked,
    factors: ScoreFactors,
    standalone_scores: Callable[[Places], Floats] | None,
    reader: Reader | None,
) -> Ranked:
    """Return the same records, with missing threads placed after the first nine.

    Each missing thread is represented by its best turn, until ten threads are present. A record
    without a thread counts as a thread. If the tenth record is one, it keeps its position.

    `standalone_scores` computes scores by place, without neighbors, exactly at the given places. It
    is None if the search used only words: then the ranked scores and `factors` apply. With both
    `standalone_scores` and a `reader`, the reader orders the best threads.
    """
    layout = ranked.context.layout
    if len(ranked.places) <= KEPT or not layout.threaded:
        return ranked
    kept = KEPT + int(layout.source[ranked.places[KEPT]] < 0)
    first, others = ranked.places[:kept], ranked.places[kept:]
    there = np.unique(layout.thread[first])
    if len(there) >= THREADS or not len(others):
        return ranked
    if standalone_scores is None:
        turns = _missing_turns(ranked, ranked.scores, there)
        worth = factors.multiply(ranked.scores, turns)
    else:
        turns = _missing_turns(ranked, standalone_scores(NO_PLACES), there)
        worth = standalone_scores(turns)[turns]
    turns, worth = _best_of_threads(ranked, turns, worth, THREADS - len(there))
    if reader is not None and standalone_scores is not None:
        turns, worth = _order_by_reading(ranked, turns, worth, reader)
    factors.load(turns)
    others = others[~np.isin(others, turns)]
    diversified = dict(zip(turns.tolist(), worth.tolist(), strict=True))
    return replace(ranked, places=np.concatenate([first, turns, others]), diversified=diversified)


def _missing_turns(ranked: Ranked, scores: Floats, there: NDArray[np.int32]) -> Places:
    """Return candidate turns of the best threads that are not `there`, best first.

    Twice the wanted number of threads is kept, because factors can change their order.
    """
    context, most = ranked.context, 2 * (THREADS - len(there))
    thread = context.layout.thread
    turns = candidate_places(ranked.scores, context)
    turns = turns[context.layout.source[turns] >= 0]
    start = np.flatnonzero(np.diff(thread[turns], prepend=-1))  # places are sorted by thread
    lacking = ~np.isin(thread[turns[start]], there)
    if not lacking.any():
        return turns[:0]
    tops = np.maximum.reduceat(scores[turns], start)[lacking]
    most = min(most, len(tops))
    turns = turns[scores[turns] >= np.partition(tops, -most)[-most]]
    turns = turns[~np.isin(thread[turns], there)]
    turns = best_places(scores, turns, context, len(turns))
    _, its_best = np.unique(thread[turns], return_index=True)
    return turns[np.union1d(np.arange(min(MIN_SCORED_TURNS, len(turns))), its_best)]


def _best_of_threads(
    ranked: Ranked, turns: Places, worth: Floats, most: int
) -> tuple[Places, Floats]:
    """Return (the best turn of each of the best threads, its score), best first."""
    order = rank_order(worth, turns, ranked.context)
    _, its_best = np.unique(ranked.context.layout.thread[turns[order]], return_index=True)
    kept = order[np.sort(its_best)][:most]
    return turns[kept], worth[kept]


def _order_by_reading(
    ranked: Ranked, turns: Places, worth: Floats, reader: Reader
) -> tuple[Places, Floats]:
    """Reorder the turns by their scores after reading."""
    worth = np.float32(1 - READING_SHARE) * worth + np.float32(READING_SHARE) * reader.score(
        turns, NEIGHBORS_READ
    )
    order = rank_order(worth, turns, ranked.context)
    return turns[order], worth[order]
