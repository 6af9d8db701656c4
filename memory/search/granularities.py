"""How much around a record is looked at: the turn itself, its window of neighbours, and the segment
of its thread.

A granularity's texts are never indexed: how often they hold a word, and how long they are, are sums
over their turns, so they
are right after late arrivals, edits and deletions. Records without a thread are found by their own
words alone.
"""

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from memrelay.memory.search.layout import Layout, Places

NEIGHBOURS = 2  # of a window, on each side
DENSE = 16  # a word that more than one of so many turns hold is summed over all of them
SEGMENT_TURNS = 15  # of a segment, at most; a thread has segments of nearly equal length
Counts = NDArray[np.float32]


class Granularity(Protocol):
    """Units of text, numbered from 0; each belongs to one place or several."""

    lengths: NDArray[np.float32]  # of the units, in words
    mean: float  # of the units' lengths

    def counts(self, places: Places, counts: Counts) -> tuple[Places, Counts]:
        """(units that hold a word, how often), for the places that hold it; each unit once."""

    def at_places(self, scores: Counts) -> Counts:
        """Scores of units as those of their places."""


class Turn:
    """The record itself."""

    def __init__(self, layout: Layout) -> None:
        """A unit is a place."""
        self.lengths = layout.length.astype(np.float32)
        self.mean = _mean(self.lengths)

    def counts(self, places: Places, counts: Counts) -> tuple[Places, Counts]:
        """As they are."""
        return places, counts

    def at_places(self, scores: Counts) -> Counts:
        """As they are."""
        return scores


class Window:
    """A turn and its neighbours in the thread."""

    def __init__(self, layout: Layout) -> None:
        """A unit is a place; of a record without a thread it is empty."""
        self._turns = layout.source >= 0
        self._together = [
            layout.thread[:-distance] == layout.thread[distance:]
            for distance in range(1, NEIGHBOURS + 1)
        ]
        self.lengths = self._sums(np.where(self._turns, layout.length, 0).astype(np.float32))
        self.mean = _mean(self.lengths[self._turns])

    def counts(self, places: Places, counts: Counts) -> tuple[Places, Counts]:
        """Each turn counts in its neighbours' windows too."""
        turns = self._turns[places]
        places, by_place = places[turns], np.zeros(len(self.lengths), np.float32)
        by_place[places] = counts[turns]
        if len(places) * DENSE > len(by_place):
            sums = self._sums(by_place)
        else:
            sums = by_place.copy()
            for here, there in self._neighbours(places):
                sums[there] += by_place[here]
        units = np.flatnonzero(sums > 0)
        return units, sums[units]

    def at_places(self, scores: Counts) -> Counts:
        """As they are."""
        return scores

    def _sums(self, by_place: Counts) -> Counts:
        """Of every window."""
        sums = by_place.copy()
        for distance, together in enumerate(self._together, 1):
            sums[distance:] += by_place[:-distance] * together
            sums[:-distance] += by_place[distance:] * together
        return sums

    def _neighbours(self, places: Places) -> Iterator[tuple[Places, Places]]:
        """(turns, those that have them in their window), a distance at a time, so that none comes
        twice."""
        for distance, together in enumerate(self._together, 1):
            before = places[places >= distance]
            before = before[together[before - distance]]
            yield before, before - distance
            after = places[places < len(together)]
            after = after[together[after]]
            yield after, after + distance


class Segment:
    """A piece of a thread."""

    def __init__(self, layout: Layout) -> None:
        """Units are numbered by thread; the last one, empty, is that of all records without a
        thread."""
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
        """Summed over the turns of each segment."""
        turns = self._turns[places]
        sums = np.bincount(self._of_place[places[turns]], counts[turns], self._units).astype(
            np.float32
        )
        units = np.flatnonzero(sums > 0)
        return units, sums[units]

    def at_places(self, scores: Counts) -> Counts:
        """Every turn has its segment's."""
        return scores[self._of_place]


class Granularities:
    """Those of one layout: all three where there are threads, else the turn alone."""

    def __init__(self, layout: Layout) -> None:
        """Made once a layout, at its first search."""
        self._layout = layout

    @cached_property
    def all(self) -> tuple[Granularity, ...]:
        """From the smallest to the largest."""
        turn = Turn(self._layout)
        return (
            (turn, Window(self._layout), Segment(self._layout))
            if self._layout.threaded
            else (turn,)
        )


def _mean(lengths: NDArray[np.float32]) -> float:
    return max(float(lengths.mean()) if len(lengths) else 0.0, 1.0)


# BM25 (Robertson and Zaragoza, 2009) over units of text whose word counts are given.

K1, B = 2.0, 0.7


def idf(records: int, holding: int) -> float:
    """What a word is worth that `holding` of all records hold; always above 0."""
    return math.log(1 + (records - holding + 0.5) / (holding + 0.5))


class Scores:
    """Adds up the words of a query over the units of a granularity."""

    def __init__(self, granularity: Granularity) -> None:
        """No word yet."""
        self._granularity = granularity
        self._sum = np.zeros(len(granularity.lengths), np.float32)

    def add(self, worth: float, places: Places, counts: NDArray[np.float32]) -> None:
        """A word of that idf, which the places hold so often."""
        units, counts = self._granularity.counts(places, counts)
        norm = (K1 * (1 - B)) + (K1 * B / self._granularity.mean) * self._granularity.lengths[units]
        self._sum[units] += (
            np.float32(worth * (K1 + 1)) * counts / (counts + norm.astype(np.float32))
        )

    def at_places(self) -> NDArray[np.float32]:
        """Their sums, for each place."""
        return self._granularity.at_places(self._sum)
