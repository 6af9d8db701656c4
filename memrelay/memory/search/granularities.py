"""The granularities of text scoring: a turn, its window of neighbors, and its thread segment.

Only turns are indexed. Word counts and lengths of larger units are sums over their turns, so
they stay correct after late arrivals, edits and deletions. A record without a thread is scored
by its own words only. BM25 follows Robertson and Zaragoza (2009).
"""

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from memrelay.memory.search.layout import Layout, Places

NEIGHBORS = 2  # turns in a window, on each side
# A word held by more than one in this many turns is summed over all turns at once.
DENSE = 16
SEGMENT_TURNS = 15  # at most; the segments of a thread have nearly equal lengths
# Memory of the arrays of all granularities, approximately.
BYTES_PER_PLACE = 24
K1, B = 1.2, 0.75  # BM25, as in FTS5
Counts = NDArray[np.float32]


class Granularity(Protocol):
    """Units of text, numbered from 0. A unit belongs to one or more places."""

    lengths: NDArray[np.float32]  # words of each unit
    mean: float  # of the lengths

    def counts(self, places: Places, counts: Counts) -> tuple[Places, Counts]:
        """Return (units that hold a word, count in each), given the places that hold it."""

    def at_places(self, scores: Counts) -> Counts:
        """Return the scores of units as scores of places."""


class Granularities:
    """The granularities of one layout: all three if it has threads, else only turns."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    @cached_property
    def all(self) -> tuple[Granularity, ...]:
        """The granularities, the smallest first. Computed at the first search of a layout."""
        turn = Turn(self._layout)
        if not self._layout.threaded:
            return (turn,)
        return turn, Window(self._layout), Segment(self._layout)


class Scores:
    """BM25 sums of a query's words over the units of a granularity."""

    def __init__(self, granularity: Granularity) -> None:
        self._granularity = granularity
        self._sum = np.zeros(len(granularity.lengths), np.float32)

    def add(self, worth: float, places: Places, counts: NDArray[np.float32]) -> Places:
        """Add a word with this idf, given the places that hold it and its count in each.

        Returns the units that hold it.
        """
        units, counts = self._granularity.counts(places, counts)
        norm = (K1 * (1 - B)) + (K1 * B / self._granularity.mean) * self._granularity.lengths[units]
        self._sum[units] += (
            np.float32(worth * (K1 + 1)) * counts / (counts + norm.astype(np.float32))
        )
        return units

    def at_places(self) -> NDArray[np.float32]:
        """Return the sum for each place."""
        return self._granularity.at_places(self._sum)


def idf(records: int, holding: int) -> float:
    """Return the inverse document frequency of a word that `holding` records hold; above 0."""
    return math.log(1 + (records - holding + 0.5) / (holding + 0.5))


class Turn:
    """The record itself: a unit is a place."""

    def __init__(self, layout: Layout) -> None:
        self.lengths = layout.length.astype(np.float32)
        self.mean = _mean(self.lengths)

    def counts(self, places: Places, counts: Counts) -> tuple[Places, Counts]:
        """Return the arguments unchanged."""
        return places, counts

    def at_places(self, scores: Counts) -> Counts:
        """Return the scores unchanged."""
        return scores


class Window:
    """A turn and its neighbors in the thread: one unit per place, empty without a thread."""

    def __init__(self, layout: Layout) -> None:
        self._turns = layout.source >= 0
        self._adjacent = [
            layout.thread[:-distance] == layout.thread[distance:]
            for distance in range(1, NEIGHBORS + 1)
        ]
        self.lengths = self._sums(np.where(self._turns, layout.length, 0).astype(np.float32))
        self.mean = _mean(self.lengths[self._turns])

    def counts(self, places: Places, counts: Counts) -> tuple[Places, Counts]:
        """Return the counts of windows: a turn counts in its neighbors' windows too."""
        turns = self._turns[places]
        places, by_place = places[turns], np.zeros(len(self.lengths), np.float32)
        by_place[places] = counts[turns]
        if len(places) * DENSE > len(by_place):
            sums = self._sums(by_place)
        else:
            sums = by_place.copy()
            for here, there in self._neighbors(places):
                sums[there] += by_place[here]
        units = np.flatnonzero(sums > 0)
        return units, sums[units]

    def at_places(self, scores: Counts) -> Counts:
        """Return the scores unchanged."""
        return scores

    def _sums(self, by_place: Counts) -> Counts:
        """Return the sum of each window."""
        sums = by_place.copy()
        for distance, together in enumerate(self._adjacent, 1):
            sums[distance:] += by_place[:-distance] * together
            sums[:-distance] += by_place[distance:] * together
        return sums

    def _neighbors(self, places: Places) -> Iterator[tuple[Places, Places]]:
        """Yield (turns, their neighbors) for each distance, so that no pair repeats."""
        for distance, together in enumerate(self._adjacent, 1):
            before = places[places >= distance]
            before = before[together[before - distance]]
            yield before, before - distance
            after = places[places < len(together)]
            after = after[together[after]]
            yield after, after + distance


class Segment:
    """A part of a thread. The last unit is empty: it stands for all records without a thread."""

    def __init__(self, layout: Layout) -> None:
        turns = np.flatnonzero(layout.source >= 0)
        _, start, number, size = np.unique(
            layout.thread[turns], return_index=True, return_inverse=True, return_counts=True
        )
        pieces = -(-size // SEGMENT_TURNS)
        within = (np.arange(len(turns)) - start[number]) * pieces[number] // size[number]
        self._units = int(pieces.sum()) + 1
        self._of_place = np.full(len(layout), self._units - 1, np.int32)
        self._of_place[turns] = (np.cumsum(pieces) - pieces)[number] + within
        self._turns = layout.source >= 0
        lengths = np.bincount(self._of_place[turns], layout.length[turns], self._units)
        self.lengths = lengths.astype(np.float32)
        self.mean = _mean(self.lengths[:-1])

    def counts(self, places: Places, counts: Counts) -> tuple[Places, Counts]:
        """Return the counts summed over the turns of each segment."""
        turns = self._turns[places]
        sums = np.bincount(self._of_place[places[turns]], counts[turns], self._units).astype(
            np.float32
        )
        units = np.flatnonzero(sums > 0)
        return units, sums[units]

    def at_places(self, scores: Counts) -> Counts:
        """Return for each turn the score of its segment."""
        return scores[self._of_place]


def _mean(lengths: NDArray[np.float32]) -> float:
    return max(float(lengths.mean()) if len(lengths) else 0.0, 1.0)
