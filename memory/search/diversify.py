"""Spreads a ranked result over threads: from the tenth record on, missing threads come first.

Neighbors raise each other's scores, so ten records often come from three or four threads.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from memrelay.memory.search.layout import Places
from memrelay.memory.search.rerank import Reader
from memrelay.memory.search.results import Floats, Ranked, Weights, best, candidates, ranking

FIRST = 9  # records that keep their position
THREADS = 10  # threads that appear before one repeats
LOOKED = 32  # turns that are scored, in addition to the best of each thread
# The share of near words in the order of threads. Values from 0.67 to 0.8 score the same.
NEAR = 0.75
BESIDE = 1  # turns on each side that the reader reads with a turn


def diversify(
    ranked: Ranked,
    weights: Weights,
    by_themselves: Callable[[], Floats] | None,
    reader: Reader | None,
) -> Ranked:
    """Return the same records, with missing threads placed after the first nine.

    Each missing thread is represented by its best turn, until ten threads are present. A record
    without a thread counts as a thread. If the tenth record is one, it keeps its position.

    `by_themselves` computes scores by place, without neighbors. It is None if the search used
    only words: then the ranked scores and `weights` apply. With both `by_themselves` and a
    `reader`, the reader orders the best threads.
    """
    layout = ranked.scene.layout
    if len(ranked.places) <= FIRST or not layout.threaded:
        return ranked
    kept = FIRST + int(layout.source[ranked.places[FIRST]] < 0)
    first, others = ranked.places[:kept], ranked.places[kept:]
    there = np.unique(layout.thread[first])
    if len(there) >= THREADS or not len(others):
        return ranked
    scores = ranked.scores if by_themselves is None else by_themselves()
    turns = _turns(ranked, scores, there)
    worth = weights.times(scores, turns) if by_themselves is None else scores[turns]
    turns, worth = _first_of_threads(ranked, turns, worth, THREADS - len(there))
    if reader is not None and by_themselves is not None:
        turns, worth = _read(ranked, turns, worth, reader)
    weights.look(turns)
    others = others[~np.isin(others, turns)]
    told = dict(zip(turns.tolist(), worth.tolist(), strict=True))
    return replace(ranked, places=np.concatenate([first, turns, others]), raised=told)


def _turns(ranked: Ranked, scores: Floats, there: NDArray[np.int32]) -> Places:
    """Return candidate turns of the best threads that are not `there`, best first.

    Twice the wanted number of threads is kept, because factors can change their order.
    """
    scene, most = ranked.scene, 2 * (THREADS - len(there))
    thread = scene.layout.thread
    turns = candidates(ranked.scores, scene)
    turns = turns[scene.layout.source[turns] >= 0]
    start = np.flatnonzero(np.diff(thread[turns], prepend=-1))  # places are sorted by thread
    lacking = ~np.isin(thread[turns[start]], there)
    if not lacking.any():
        return turns[:0]
    tops = np.maximum.reduceat(scores[turns], start)[lacking]
    most = min(most, len(tops))
    turns = turns[scores[turns] >= np.partition(tops, -most)[-most]]
    turns = turns[~np.isin(thread[turns], there)]
    turns = best(scores, turns, scene, len(turns))
    _, its_best = np.unique(thread[turns], return_index=True)
    return turns[np.union1d(np.arange(min(LOOKED, len(turns))), its_best)]


def _first_of_threads(
    ranked: Ranked, turns: Places, worth: Floats, most: int
) -> tuple[Places, Floats]:
    """Return (the best turn of each of the best threads, its score), best first."""
    order = ranking(worth, turns, ranked.scene)
    _, its_best = np.unique(ranked.scene.layout.thread[turns[order]], return_index=True)
    kept = order[np.sort(its_best)][:most]
    return turns[kept], worth[kept]


def _read(ranked: Ranked, turns: Places, worth: Floats, reader: Reader) -> tuple[Places, Floats]:
    """Reorder the turns by their scores after reading."""
    worth = np.float32(1 - NEAR) * worth + np.float32(NEAR) * reader.near(turns, BESIDE)
    order = ranking(worth, turns, ranked.scene)
    return turns[order], worth[order]
