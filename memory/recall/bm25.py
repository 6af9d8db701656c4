"""BM25 (Robertson and Zaragoza, 2009) over units of text whose word counts are given."""

import math

import numpy as np
from numpy.typing import NDArray

from memory.recall.granularities import Granularity
from memory.recall.layout import Places

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
