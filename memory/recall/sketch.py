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

PARTS = (96, 4), (64, 6)   # numbers of a part, at most; and one for so many of a vector's
SAMPLE, ROUNDS = 4096, 3   # vectors that the directions are taken from, and how often they are made better
SPARE = 16                 # more directions than are wanted, so that the last of these are good too
TOGETHER = 4096            # vectors at a time
FEW = 4                    # of so many one or fewer: they are picked out before anything is multiplied
OUTGROWN = 4               # times as many vectors as the directions were made for, when they are made anew
TRIED, TRIALS = 16_384, 4    # of so many bounds the highest are looked for; so many times what is wanted is compared
ROUNDING = 1e-4            # more than single precision gets wrong, of a cosine; its square, of a length's square


class Sketch:
    """Of the vectors of a matrix, by slot."""

    def __init__(self, vectors: Floats) -> None:
        """The directions are those of a sample of the vectors, evenly taken; none has a sketch yet. 0.1 s for 384 numbers."""
        dimension = vectors.shape[1]
        self._sizes = [min(most, dimension // share) for most, share in PARTS]
        self._made_for = len(vectors)
        self._directions = _directions(vectors[::max(1, len(vectors) // SAMPLE)], sum(self._sizes))
        self._parts = [np.empty((0, size + 1), np.float32) for size in self._sizes]
        self.count = 0

    @staticmethod
    def size(dimension: int) -> int:
        """Bytes of a vector's."""
        return 4 * sum(min(most, dimension // share) + 1 for most, share in PARTS)

    @property
    def nbytes(self) -> int:
        """What it takes in memory."""
        return sum(part.nbytes for part in self._parts) + self._directions.nbytes

    def outgrown(self, count: int) -> bool:
        """Whether there are many more vectors by now than it was made for."""
        return count > OUTGROWN * self._made_for

    def catch_up(self, vectors: Floats) -> None:
        """Sketches those that have none; `vectors` are all, by slot."""
        if len(vectors) > len(self._parts[0]):
            self._parts = [_longer(part, self.count, max(len(vectors), len(part) * 3 // 2)) for part in self._parts]
        for first in range(self.count, len(vectors), TOGETHER):
            last = min(first + TOGETHER, len(vectors))
            for kept, part in zip(self._parts, self._sketched(vectors[first:last]), strict=True):
                kept[first:last] = part
        self.count = len(vectors)

    def near(self, slots: Slots, question: Floats, most: int, exact: Callable[[Slots], Floats]) -> Places:
        """Which of these slots, by their index, may be among the `most` nearest: all that are, or are as near as the last of
        them, and some that are not. `exact` gives the dot products of slots.
        """
        at, known, least = np.arange(len(slots)), np.zeros(1, np.float32), -np.inf
        for part, asked in zip(self._parts, self._sketched(question[None]), strict=True):
            picked = slots[at]
            bounds = known + _dots(part[:self.count], picked, asked[0])
            if len(at) > TRIALS * most:
                dots = exact(picked[_highest(bounds, TRIALS * most)])
                least = max(least, float(np.partition(dots, -most)[-most])) if len(dots) >= most else least
            kept = np.flatnonzero(bounds >= least - ROUNDING)
            known = bounds[kept] - part[picked[kept], -1] * asked[0, -1]
            at = at[kept]
        return at

    def _sketched(self, vectors: Floats) -> list[Floats]:
        told, parts = vectors @ self._directions, []
        left = np.vecdot(vectors, vectors)   # of the squares of their lengths
        for numbers in np.split(told, np.cumsum(self._sizes)[:-1], axis=1):
            left = left - np.vecdot(numbers, numbers)
            length = np.sqrt(np.maximum(left, 0) + np.float32(ROUNDING ** 2 * 100))
            parts.append(np.concatenate([numbers, length[:, None]], axis=1))
        return parts


def _directions(sample: Floats, count: int) -> Floats:
    """A column each, of unit length and at right angles: those in which the sample is longest, that of all first."""
    chance = np.random.default_rng(0)
    found = chance.normal(size=(sample.shape[1], min(count + SPARE, sample.shape[1]))).astype(np.float32)
    for _ in range(ROUNDS):
        found = np.linalg.qr(sample.T @ (sample @ found))[0]
    told = sample @ found
    turned = np.linalg.eigh(told.T @ told)[1][:, ::-1]   # the longest first
    return np.ascontiguousarray((found @ turned)[:, :count], np.float32)


def _dots(part: Floats, slots: Slots, asked: Floats) -> Floats:
    if FEW * len(slots) > len(part):
        dots: Floats = np.vecdot(part, asked)[slots]
        return dots
    picked: Floats = np.vecdot(part.take(slots, axis=0), asked)
    return picked


def _highest(bounds: Floats, count: int) -> Places:
    """About so many of the highest, found by a sample of them; no more than twice as many."""
    sample = bounds[::max(1, len(bounds) // TRIED)]
    wanted = max(1, len(sample) * count // len(bounds))
    return np.flatnonzero(bounds >= np.partition(sample, -wanted)[-wanted])[:2 * count]


def _longer(part: Floats, count: int, size: int) -> Floats:
    longer = np.empty((size, part.shape[1]), np.float32)
    longer[:count] = part[:count]
    return longer
