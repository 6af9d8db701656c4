"""A sketch of vectors: a few bits of each that say which may be near to a question, so that most
need not be read.

Each bit says on which side of a plane through the middle of all vectors one lies. The planes are
drawn by chance, so that two
vectors differ in about as large a share of the bits as their angle is of a half turn, whatever they
are (Charikar, "Similarity
estimation techniques from rounding algorithms", 2002). It is an estimate: those that are picked are
compared in full.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Slots = NDArray[np.int32]
Places = NDArray[np.intp]
Words = NDArray[np.uint64]

WORD, WORDS = 64, 6  # bits of a word, and words of a vector
BYTES = WORD * WORDS // 8  # of a vector's
SAMPLE = 4096  # vectors that the middle is taken from
TOGETHER = 4096  # vectors at a time
# so many that differ in fewest bits are picked, or more (docs/embedding.md: what this may miss)
PICKED = 1024
OUTGROWN = 4  # times as many vectors as the middle was taken from, when it is taken anew


class BinaryCodes:
    """Of the vectors of a matrix, by slot."""

    def __init__(self, vectors: Floats) -> None:
        """The middle is that of a sample of the vectors, evenly taken; none has a sketch yet."""
        self._made_for = len(vectors)
        self._middle: Floats = vectors[:: max(1, len(vectors) // SAMPLE)].mean(axis=0)
        self._planes = _planes(vectors.shape[1])
        self._bits = np.empty(
            (WORDS, 0), np.uint64
        )  # a word of all vectors in a row, for that is quick
        self.count = 0

    @property
    def nbytes(self) -> int:
        """What it takes in memory."""
        return self._bits.nbytes + self._planes.nbytes + self._middle.nbytes

    def outgrown(self, count: int) -> bool:
        """Whether there are many more vectors by now than it was made for."""
        return count > OUTGROWN * self._made_for

    def catch_up(self, vectors: Floats) -> None:
        """Sketches those that have none; `vectors` are all, by slot."""
        if len(vectors) > self._bits.shape[1]:
            longer = np.empty((WORDS, max(len(vectors), self._bits.shape[1] * 3 // 2)), np.uint64)
            longer[:, : self.count] = self._bits[:, : self.count]
            self._bits = longer
        for first in range(self.count, len(vectors), TOGETHER):
            some = vectors[first : first + TOGETHER]
            self._bits[:, first : first + len(some)] = self._sketched(some)
        self.count = len(vectors)

    def near(self, slots: Slots, question: Floats, most: int) -> Places:
        """Which of these slots, by their index, are likely to be the `most` nearest: `PICKED`, and
        all that are as near."""
        wanted, asked = max(PICKED, most), self._sketched(question[None])[:, 0]
        if len(slots) <= wanted:
            return np.arange(len(slots))
        differing = np.bitwise_count(self._bits[0, : self.count] ^ asked[0]).astype(np.uint16)
        for word, its in zip(self._bits[1:, : self.count], asked[1:], strict=True):
            differing += np.bitwise_count(word ^ its)
        differing = differing.take(slots)
        return np.flatnonzero(differing <= _least_with(differing, wanted))

    def _sketched(self, vectors: Floats) -> Words:
        """A column each."""
        sides = np.packbits((vectors - self._middle) @ self._planes > 0, axis=1)
        return np.ascontiguousarray(sides).view(np.uint64).T


def _planes(dimension: int) -> Floats:
    """A column each, by chance and always the same, at right angles as far as there is room: they
    tell more apart then."""
    chance, count = np.random.default_rng(0), WORD * WORDS
    turns = [
        np.linalg.qr(chance.normal(size=(dimension, dimension)))[0]
        for _ in range(-(-count // dimension))
    ]
    return np.ascontiguousarray(np.concatenate(turns, axis=1)[:, :count], np.float32)


def _least_with(differing: NDArray[np.uint16], wanted: int) -> int:
    """The least number of bits in which so many differ at most. Halving it is a sixth of a
    partition."""
    low, high = 0, WORD * WORDS
    while low < high:
        middle = (low + high) // 2
        if np.count_nonzero(differing <= middle) >= wanted:
            high = middle
        else:
            low = middle + 1
    return low
