"""Vectors as int8 codes: a quarter of the memory of float32, for stores with many vectors.

A code is the vector divided by its largest component, in steps of 1/127. A cosine computed from
codes differs from the exact one by about 0.001, so the best records are scored again from their
stored vectors. docs/performance.md has measurements.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
STEPS = 127
# Codes converted at a time. The floats fit into the processor's cache.
BLOCK = 1024
BYTES_PER_SCALE = 4


class Int8Vectors:
    """A growing array of vectors. Reading returns float32 of shape (vectors, dimension)."""

    def __init__(self, dimension: int) -> None:
        self._codes = np.empty((0, dimension), np.int8)
        self._scales = np.empty(0, np.float32)

    def __len__(self) -> int:
        return len(self._scales)

    def __getitem__(self, slots: slice | NDArray[np.int32]) -> Floats:
        floats: Floats = self._codes[slots].astype(np.float32)
        floats *= self._scales[slots, None]
        return floats

    @property
    def nbytes(self) -> int:
        """The size in memory."""
        return self._codes.nbytes + self._scales.nbytes

    def resize(self, size: int) -> None:
        """Make room for `size` vectors. The memory is extended in place where the system can."""
        self._codes.resize((size, self._codes.shape[1]), refcheck=False)
        self._scales.resize(size, refcheck=False)

    def write(self, first: int, vectors: Floats) -> None:
        """Store the vectors from slot `first` on."""
        within = slice(first, first + len(vectors))
        scales = np.maximum(np.abs(vectors).max(axis=1), np.float32(1e-12)) / np.float32(STEPS)
        self._codes[within] = np.rint(vectors / scales[:, None])
        self._scales[within] = scales

    def dots(self, count: int, question: Floats) -> Floats:
        """Return the dot products of the first `count` vectors with the question."""
        dots = np.empty(count, np.float32)
        floats = np.empty((BLOCK, len(question)), np.float32)
        for first in range(0, count, BLOCK):
            within = slice(first, min(first + BLOCK, count))
            some = floats[: within.stop - first]
            np.copyto(some, self._codes[within])
            np.vecdot(some, question, out=dots[within])
        dots *= self._scales[:count]
        return dots
