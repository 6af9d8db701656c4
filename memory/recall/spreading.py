"""Spreads a ranked search over threads: from the tenth place on, threads that are not there yet come first.

Neighbours raise each other, so that ten records are of three threads or four; what else the store knows lies in others.
"""
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from memory.recall.layout import Places
from memory.recall.ranked import Ranked, best, candidates
from memory.recall.scene import Floats

FIRST = 9      # records that stand where their scores put them
THREADS = 10   # that are there before any comes again


def spread(ranked: Ranked, limit: int, by_themselves: Callable[[], Floats]) -> Ranked:
    """The same records, but that threads which the first nine lack follow these, each with its best by itself, until ten are
    there. A record without a thread counts as one, and keeps its place among its like, the tenth too.

    `by_themselves` are scores by place, made where they are needed alone.
    """
    layout = ranked.scene.layout
    if len(ranked.places) <= FIRST or not layout.threaded:
        return ranked
    kept = FIRST + int(layout.source[ranked.places[FIRST]] < 0)
    first, others = ranked.places[:kept], ranked.places[kept:]
    there = np.unique(layout.thread[first])
    if len(there) >= THREADS or not len(others):
        return ranked
    scores = by_themselves()
    raised = _raised(ranked, scores, there)
    others = others[~np.isin(others, raised)]
    told = dict(zip(raised.tolist(), scores[raised].tolist(), strict=True))
    return replace(ranked, places=np.concatenate([first, raised, others])[:limit], raised=told)


def _raised(ranked: Ranked, scores: Floats, there: NDArray[np.int32]) -> Places:
    """The best turn of each of the best threads that are not `there`, best first."""
    scene, most = ranked.scene, THREADS - len(there)
    thread = scene.layout.thread
    turns = candidates(ranked.scores, scene)
    turns = turns[scene.layout.source[turns] >= 0]
    start = np.flatnonzero(np.diff(thread[turns], prepend=-1))   # places are in the order of threads
    lacking = ~np.isin(thread[turns[start]], there)
    if not lacking.any():
        return turns[:0]
    tops = np.maximum.reduceat(scores[turns], start)[lacking]
    most = min(most, len(tops))
    turns = turns[scores[turns] >= np.partition(tops, -most)[-most]]
    turns = turns[~np.isin(thread[turns], there)]
    turns = best(scores, turns, scene, len(turns))
    _, its_best = np.unique(thread[turns], return_index=True)
    return turns[np.sort(its_best)][:most]
