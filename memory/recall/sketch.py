"""A sketch of vectors: few numbers of each that say how near it can be to a question at most, so that most need not be read.

A vector is told in the directions in which those of its store differ most, in two parts, with the length of what is left over
after each. The dot product of two vectors is at most that of their parts plus the product of what is left of them
(Cauchy and Schwarz); so whatever has a lower bound than the nearest that are known is not among them, and nothing is guessed.
"""
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Slots = NDArray[np.int32]
Places = NDArray[np.intp]

PARTS = (95, 4), (63, 6)   # numbers of a part, at most, and one for so many of a vector's; with the length whole cache lines
SAMPLE, ROUNDS = 4096, 3   # vectors that the directions are taken from, and how often they are made better
SPARE = 16                 # more directions than are wanted, so that the last of these are good too
TOGETHER = 4096            # vectors at a time
FEW = 4                    # of so many one or fewer: they are picked out before anything is multiplied
OUTGROWN = 4               # times as many vectors as the directions were made for, when they are made anew
TRIALS, RUN = 4, 64        # so many times what is wanted is compared; the highest of so many bounds is tried
ROUNDING = 1e-4            # more than single precision gets wrong, of a cosine; its square, of a length's square


class Sketch:
    """Of the vectors of a matrix, by slot."""

    def __init__(self, vectors: Floats) -> None:
        """The directions are those of a sample of the vectors, evenly taken; none has a sketch yet. 0.1 s for 384 numbers."""
        dimension = vectors.shape[1]
        self._sizes = [min(most, dimension // share) for most, share in PARTS]
        self._made_for = len(vectors)
        self._directions = _directions(vectors[::max(1, len(vectors) // SAMPLE)], sum(self._sizes))
        self._parts = [np.empty((0, size + 1), np.float32) for size in self._sizes]   # the numbers, and the length at the end
        self._left = [np.empty((0, 1), np.float32) for _ in self._sizes]   # the lengths again, beside each other
        self.count = 0

    @staticmethod
    def size(dimension: int) -> int:
        """Bytes of a vector's."""
        return 4 * sum(min(most, dimension // share) + 2 for most, share in PARTS)

    @property
    def nbytes(self) -> int:
        """What it takes in memory."""
        return sum(part.nbytes for part in (*self._parts, *self._left)) + self._directions.nbytes

    def outgrown(self, count: int) -> bool:
        """Whether there are many more vectors by now than it was made for."""
        return count > OUTGROWN * self._made_for

    def catch_up(self, vectors: Floats) -> None:
        """Sketches those that have none; `vectors` are all, by slot."""
        if len(vectors) > len(self._parts[0]):
            room = max(len(vectors), len(self._parts[0]) * 3 // 2)
            self._parts, self._left = ([_longer(one, self.count, room) for one in some] for some in (self._parts, self._left))
        for first in range(self.count, len(vectors), TOGETHER):
            last = min(first + TOGETHER, len(vectors))
            sketched = self._sketched(vectors[first:last], vectors[first:last] @ self._directions.T)
            for kept, left, part in zip(self._parts, self._left, sketched, strict=True):
                kept[first:last], left[first:last] = part, part[:, -1:]
        self.count = len(vectors)

    def near(self, slots: Slots, question: Floats, most: int, exact: Callable[[Slots], Floats]) -> Places:
        """Which of these slots, by their index, may be among the `most` nearest: all that are, or are as near as the last of
        them, and some that are not. `exact` gives the dot products of slots.
        """
        at, known, least = None, np.zeros(1, np.float32), -np.inf
        asked = self._sketched(question[None], np.vecdot(self._directions, question)[None])
        for part, left, (wanted,) in zip(self._parts, self._left, asked, strict=True):
            picked = slots if at is None else slots[at]
            bounds = known + _dots(part[:self.count], picked, wanted)
            if len(picked) > TRIALS * most:
                dots = exact(picked[_highest(bounds, TRIALS * most)])
                least = max(least, float(np.partition(dots, -most)[-most])) if len(dots) >= most else least
            kept = np.flatnonzero(bounds >= least - ROUNDING)
            known = bounds[kept] - left[picked[kept], 0] * wanted[-1]
            at = kept if at is None else at[kept]
        return np.arange(len(slots)) if at is None else at

    def _sketched(self, vectors: Floats, told: Floats) -> list[Floats]:
        """`told` are their dot products with the directions."""
        parts = []
        left = np.vecdot(vectors, vectors)   # of the squares of their lengths
        for numbers in np.split(told, np.cumsum(self._sizes)[:-1], axis=1):
            left = left - np.vecdot(numbers, numbers)
            length = np.sqrt(np.maximum(left, 0) + np.float32(ROUNDING ** 2 * 100))
            parts.append(np.concatenate([numbers, length[:, None]], axis=1))
        return parts


def _directions(sample: Floats, count: int) -> Floats:
    """A row each, of unit length and at right angles: those in which the sample is longest, that of all first."""
    chance = np.random.default_rng(0)
    found = chance.normal(size=(sample.shape[1], min(count + SPARE, sample.shape[1]))).astype(np.float32)
    for _ in range(ROUNDS):
        found = np.linalg.qr(sample.T @ (sample @ found))[0]
    told = sample @ found
    turned = np.linalg.eigh(told.T @ told)[1][:, ::-1]   # the longest first
    return np.ascontiguousarray((found @ turned)[:, :count].T, np.float32)


def _dots(part: Floats, slots: Slots, asked: Floats) -> Floats:
    if FEW * len(slots) > len(part):
        dots: Floats = np.vecdot(part, asked).take(slots)
        return dots
    picked: Floats = np.vecdot(part.take(slots, axis=0), asked)
    return picked


def _highest(bounds: Floats, count: int) -> Places:
    """So many of the highest of more, or nearly: each is the highest of its run, where there are runs enough."""
    runs = len(bounds) // RUN
    if runs <= count:
        return np.argpartition(bounds, -count)[-count:]
    table = bounds[:runs * RUN].reshape(RUN, runs)   # a run is a column, for that is quick
    found = np.argpartition(table.max(axis=0), -count)[-count:]
    highest: Places = table[:, found].argmax(axis=0) * runs + found
    return highest


def _longer(part: Floats, count: int, size: int) -> Floats:
    longer = np.empty((size, part.shape[1]), np.float32)
    longer[:count] = part[:count]
    return longer
