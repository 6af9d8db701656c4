"""Binary codes of vectors: 384 bits per vector that estimate which ones are near a question.

Each bit states on which side of a random plane through the mean a vector lies. The share of
differing bits approximates the angle (Charikar, "Similarity estimation techniques from rounding
algorithms", 2002). The picked vectors are compared in full.
"""

import numpy as np
from numpy.typing import NDArray

from memrelay.memory.search.int8_vectors import Int8Vectors

Floats = NDArray[np.float32]
Slots = NDArray[np.int32]
Places = NDArray[np.intp]
Words = NDArray[np.uint64]

WORD, WORDS = 64, 6  # bits of a word, words of a code
BYTES = WORD * WORDS // 8  # of a code
SAMPLE = 4096  # vectors from which the mean is computed
BLOCK = 4096  # vectors encoded at a time
# Vectors picked for comparison, or more if several are equally near (docs/embedding.md).
PICKED = 1024
# The mean is computed again once the number of vectors has grown by this factor.
GROWTH = 4


class BinaryCodes:
    """The codes of a matrix's vectors, by slot. The mean comes from an even sample of the first
    `count` vectors.
    """

    def __init__(self, vectors: Floats | Int8Vectors, count: int) -> None:
        self._made_for = count
        sample: Floats = vectors[: count : max(1, count // SAMPLE)]
        self._middle: Floats = sample.mean(axis=0)
        self._planes = _random_planes(sample.shape[1])
        # one row per word, holding that word of all vectors: fast to scan
        self._bits = np.empty((WORDS, 0), np.uint64)
        self.count = 0

    @property
    def nbytes(self) -> int:
        """The size in memory."""
        return self._bits.nbytes + self._planes.nbytes + self._middle.nbytes

    def is_outgrown(self, count: int) -> bool:
        """Return whether the codes should be rebuilt for this many vectors."""
        return count > GROWTH * self._made_for

    def catch_up(self, vectors: Floats | Int8Vectors, count: int) -> None:
        """Encode the vectors up to `count` that have no code yet; `vectors` is by slot."""
        if count > self._bits.shape[1]:
            longer = np.empty((WORDS, max(count, self._bits.shape[1] * 3 // 2)), np.uint64)
            longer[:, : self.count] = self._bits[:, : self.count]
            self._bits = longer
        for first in range(self.count, count, BLOCK):
            some = vectors[first : min(first + BLOCK, count)]
            self._bits[:, first : first + len(some)] = self._encode(some)
        self.count = count

    def pick_nearest(self, slots: Slots, question: Floats, most: int) -> Places:
        """Return the indexes of the slots that are likely among the `most` nearest.

        These are `PICKED` or more: all that are as near as the last.
        """
        wanted, code = max(PICKED, most), self._encode(question[None])[:, 0]
        if len(slots) <= wanted:
            return np.arange(len(slots))
        differing = np.bitwise_count(self._bits[0, : self.count] ^ code[0]).astype(np.uint16)
        for word, its in zip(self._bits[1:, : self.count], code[1:], strict=True):
            differing += np.bitwise_count(word ^ its)
        differing = differing.take(slots)
        return np.flatnonzero(differing <= _radius(differing, wanted))

    def _encode(self, vectors: Floats) -> Words:
        sides = np.packbits((vectors - self._middle) @ self._planes > 0, axis=1)
        return np.ascontiguousarray(sides).view(np.uint64).T


def _random_planes(dimension: int) -> Floats:
    """Return one random plane per column: the same on every call, orthogonal where possible.

    Orthogonal planes distinguish vectors better.
    """
    chance, count = np.random.default_rng(0), WORD * WORDS
    turns = [
        np.linalg.qr(chance.normal(size=(dimension, dimension)))[0]
        for _ in range(-(-count // dimension))
    ]
    return np.ascontiguousarray(np.concatenate(turns, axis=1)[:, :count], np.float32)


def _radius(differing: NDArray[np.uint16], wanted: int) -> int:
    """Return the smallest number of differing bits that at least `wanted` codes stay within.

    Bisection takes a sixth of the time of a partition.
    """
    low, high = 0, WORD * WORDS
    while low < high:
        middle = (low + high) // 2
        if np.count_nonzero(differing <= middle) >= wanted:
            high = middle
        else:
            low = middle + 1
    return low
