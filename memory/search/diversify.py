"""Spreads a ranked search over threads: from the tenth place on, threads that are not there yet
come first.

Neighbours raise each other, so that ten records are of three threads or four; what else the store
knows lies in others.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from memrelay.memory.search.layout import Places
from memrelay.memory.search.rerank import Reader
from memrelay.memory.search.results import Floats, Ranked, Weights, best, candidates, ranking

FIRST = 9  # records that stand where their scores put them
THREADS = 10  # that are there before any comes again
LOOKED = 32  # turns that are weighed, beside the best of each thread
NEAR = 0.75  # the share that near words have in the order of threads; 0.67 to 0.8 is one plateau
BESIDE = 1  # turns on each side that are read with one


def diversify(
    ranked: Ranked,
    weights: Weights,
    by_themselves: Callable[[], Floats] | None,
    reader: Reader | None,
) -> Ranked:
    """The same records, but that threads which the first nine lack follow these, each with its best
    by itself, until ten are
    there. A record without a thread counts as one, and keeps its place among its like, the tenth
    too.

    `by_themselves` are scores by place, made where they are needed alone; None where there are but
    words: then the scores of
    all hold, with their `weights`. With both, a `reader` says in which order the best threads come.
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
    """Of threads that are not `there`, turns among which the best of the best threads are; best
    first by these scores.

    Twice as many threads have one as are wanted, since what they are weighed by can change their
    order.
    """
    scene, most = ranked.scene, 2 * (THREADS - len(there))
    thread = scene.layout.thread
    turns = candidates(ranked.scores, scene)
    turns = turns[scene.layout.source[turns] >= 0]
    start = np.flatnonzero(np.diff(thread[turns], prepend=-1))  # places are in the order of threads
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
    """(the best turn of each of the best threads, what each is worth), best first."""
    order = ranking(worth, turns, ranked.scene)
    _, its_best = np.unique(ranked.scene.layout.thread[turns[order]], return_index=True)
    kept = order[np.sort(its_best)][:most]
    return turns[kept], worth[kept]


def _read(ranked: Ranked, turns: Places, worth: Floats, reader: Reader) -> tuple[Places, Floats]:
    """The same turns by what they are worth once they are read."""
    worth = np.float32(1 - NEAR) * worth + np.float32(NEAR) * reader.near(turns, BESIDE)
    order = ranking(worth, turns, ranked.scene)
    return turns[order], worth[order]
