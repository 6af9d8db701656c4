"""The vectors of a store in memory, one row per record in order of arrival."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from memrelay.memory.engine.row_arrays import Rows
from memrelay.memory.search.binary_codes import BYTES, BinaryCodes
from memrelay.memory.search.int8_vectors import BYTES_PER_SCALE, Int8Vectors
from memrelay.memory.search.layout import Layout

NOWHERE = -1
BLOCK = 4096  # vectors processed at a time, to limit memory
# Rows are gathered before multiplication if at most one vector in this many is wanted.
FEW = 4
MIN_CODED = 8192  # vectors from which on binary codes save time
MIN_DIMENSION = 64  # of vectors that binary codes can represent
BYTES_PER_NUMBER = 4  # of a float32
# The vectors of a store are kept as float32 up to this size, else as int8 codes.
MAX_FLOAT_BYTES = 48 << 20
# Capacity grows by this share when it is full.
FLOAT_GROWTH, INT8_GROWTH = 1 / 2, 1 / 16
Floats = NDArray[np.float32]
Slots = NDArray[np.int32]
Number = TypeVar("Number", bound=np.generic)


class _Alignment(NamedTuple):
    """The alignment of the matrix with a layout, by place."""

    layout: Layout
    slots: Slots
    known: NDArray[np.bool_]  # whether the record has a vector
    has_before: NDArray[np.bool_]  # whether the previous turn has one
    has_after: NDArray[np.bool_]
    share: Floats  # 1 / length of the window's vector sum, for a turn with a vector; else 0


class Matrix:
    """A growing matrix that follows the store. A slot is a row of the matrix.

    Slots are never reused, so a changed neighbor is detected by its slot. With `coded`, vectors are
    int8 codes, and cosines are approximate.
    """

    def __init__(self, dimension: int, *, coded: bool = False) -> None:
        self.is_coded, self._dimension = coded, dimension
        self._vectors: Floats | Int8Vectors = (
            Int8Vectors(dimension) if coded else np.empty((0, dimension), np.float32)
        )
        self._count, self._live = 0, 0  # slots in use, and those that still belong to a record
        self._slot_of = np.full(0, NOWHERE, np.int32)  # by row of the record
        # By slot: the neighbors' slots and the length of the window when it was last summed.
        self._before, self._after, self._length = (
            np.empty(0, np.int32),
            np.empty(0, np.int32),
            np.empty(0, np.float32),
        )
        self._alignment: _Alignment | None = None
        self._codes: BinaryCodes | None = None  # built at the first search for nearest vectors

    @property
    def nbytes(self) -> int:
        """The size in memory."""
        arrays = self._slot_of, self._before, self._after, self._length
        return sum((array.nbytes for array in arrays), self._vectors.nbytes) + (
            self._codes.nbytes if self._codes is not None else 0
        )

    @property
    def is_wasteful(self) -> bool:
        """Whether more than half of it belongs to changed or deleted records."""
        return self._count > BLOCK and 2 * self._live < self._count

    @property
    def is_outgrown(self) -> bool:
        """Whether its vectors should be int8 codes."""
        return not self.is_coded and self._live > max_float_vectors(self._dimension)

    def add(self, found: Iterable[tuple[int, bytes]]) -> None:
        """Add (row, vector) pairs: "<f2" of unit length, or b"" for no vector."""
        for some in in_blocks(found):
            rows = np.array([row for row, vector in some if vector], np.int64)
            vectors = b"".join([vector for _, vector in some])
            if len(rows):
                self._append(
                    rows, np.frombuffer(vectors, "<f2").reshape(len(rows), -1).astype(np.float32)
                )

    def remove(self, rows: Rows) -> None:
        """Remove the vectors of these rows."""
        rows = rows[rows < len(self._slot_of)]
        self._live -= int(np.count_nonzero(self._slot_of[rows] >= 0))
        self._slot_of[rows] = NOWHERE
        self._alignment = None

    def nearest(
        self, rows: Rows, question: Floats, most: int, *, room: int = 1 << 62
    ) -> dict[int, float]:
        """Return row -> cosine of the `most` rows nearest to the question, nearest first.

        `rows` is ascending. The oldest of equal ones comes first. Binary codes preselect rows if
        there are many. `room` limits the memory of vectors and codes together, in bytes.
        """
        inside = rows[: int(np.searchsorted(rows, len(self._slot_of)))]
        slots = self._slot_of.take(inside)
        if len(slots) and int(slots.min()) < 0:
            there = slots >= 0
            inside, slots = inside[there], slots[there]
        if len(slots) > MIN_CODED and most and (codes := self._current_codes(room)) is not None:
            picked = codes.pick_nearest(slots, question, most)
            inside, slots = inside[picked], slots[picked]
        dots = self._dots(slots, question)
        least = np.partition(dots, -most)[-most] if len(dots) > most > 0 else -np.inf
        kept = np.flatnonzero(dots >= least)  # all ties, so that the oldest can be chosen
        kept = kept[np.lexsort((inside[kept], -dots[kept]))][:most]
        return dict(zip(inside[kept].tolist(), dots[kept].tolist(), strict=True))

    def cosines(
        self, layout: Layout, question: Floats, allowed: NDArray[np.bool_] | None
    ) -> tuple[Floats, NDArray[np.bool_], Floats]:
        """Return (cosine, whether there is a vector, cosine without window) by place.

        The first is the mean of a turn's cosine and that of its window: the turn and one neighbor
        on each side. Only allowed places are computed.
        """
        aligned = self._align(layout)
        wanted = aligned.known if allowed is None else aligned.known & _with_neighbors(allowed)
        dots = np.zeros(len(layout), np.float32)
        dots[wanted] = self._dots(aligned.slots[wanted], question)
        around = dots.copy()
        around[1:] += dots[:-1] * aligned.has_before[1:]
        around[:-1] += dots[1:] * aligned.has_after[:-1]
        around *= aligned.share
        return np.where(aligned.share > 0, (dots + around) / 2, dots), aligned.known, dots

    def _dots(self, slots: Slots, question: Floats) -> Floats:
        if FEW * len(slots) >= self._count:
            return self._all_dots(question)[slots]
        return np.concatenate(
            [
                np.empty(0, np.float32),
                *(np.vecdot(self._vectors[some], question) for some in _pieces(slots)),
            ]
        )

    def _all_dots(self, question: Floats) -> Floats:
        if isinstance(self._vectors, Int8Vectors):
            return self._vectors.dots(self._count, question)
        # vecdot is twice as fast as `@`, and a row's result does not depend on other rows
        dots: Floats = np.vecdot(self._vectors[: self._count], question)
        return dots

    def _current_codes(self, room: int) -> BinaryCodes | None:
        """Return the codes of all vectors; None without room, or if vectors are too short."""
        size = vector_bytes(self._dimension, coded=self.is_coded) + BYTES
        if self._dimension < MIN_DIMENSION or self._count * size > room:
            self._codes = None
            return None
        if self._codes is None or self._codes.is_outgrown(self._count):
            self._codes = BinaryCodes(self._vectors, self._count)
        self._codes.catch_up(self._vectors, self._count)
        return self._codes

    def _append(self, rows: Rows, vectors: Floats) -> None:
        count, last = self._count + len(rows), int(rows.max())
        if count > len(self._vectors):
            growth = INT8_GROWTH if self.is_coded else FLOAT_GROWTH
            self._grow(max(count, int(len(self._vectors) * (1 + growth))))
        if last >= len(self._slot_of):
            self._slot_of = _longer(
                self._slot_of, max(last + 1, len(self._slot_of) * 3 // 2), NOWHERE
            )
        if isinstance(self._vectors, Int8Vectors):
            self._vectors.write(self._count, vectors)
        else:
            self._vectors[self._count : count] = vectors
        self._live += len(rows) - int(np.count_nonzero(self._slot_of[rows] >= 0))
        self._slot_of[rows] = np.arange(self._count, count)
        self._count, self._alignment = count, None

    def _grow(self, size: int) -> None:
        if isinstance(self._vectors, Int8Vectors):
            self._vectors.resize(size)
        else:
            longer = np.empty((size, self._dimension), np.float32)
            longer[: self._count] = self._vectors[: self._count]
            self._vectors = longer
        self._before, self._after = (
            _longer(self._before, size, NOWHERE - 1),
            _longer(self._after, size, NOWHERE - 1),
        )
        self._length = _longer(self._length, size, 0)

    def _align(self, layout: Layout) -> _Alignment:
        """Return the slots of places and their neighbors. Changed windows are summed again."""
        if self._alignment is not None and self._alignment.layout is layout:
            return self._alignment
        slots = np.full(len(layout), NOWHERE, np.int32)
        inside = layout.row < len(self._slot_of)
        slots[inside] = self._slot_of[layout.row[inside]]
        before, after = np.full_like(slots, NOWHERE), np.full_like(slots, NOWHERE)
        follows = (layout.thread[1:] == layout.thread[:-1]) & (layout.source[1:] >= 0)
        before[1:][follows], after[:-1][follows] = slots[:-1][follows], slots[1:][follows]
        self._measure(np.flatnonzero((slots >= 0) & (layout.source >= 0)), slots, before, after)
        share = np.zeros(len(layout), np.float32)
        turns = (slots >= 0) & (layout.source >= 0)
        share[turns] = 1 / np.maximum(self._length[slots[turns]], 1e-6)
        self._alignment = _Alignment(layout, slots, slots >= 0, before >= 0, after >= 0, share)
        return self._alignment

    def _measure(self, turns: NDArray[np.int64], slots: Slots, before: Slots, after: Slots) -> None:
        """Compute the lengths of the windows of these places, unless they are known."""
        its = slots[turns]
        turns = turns[(self._before[its] != before[turns]) | (self._after[its] != after[turns])]
        for some in _pieces(turns):
            self._length[slots[some]] = self._lengths(slots[some], before[some], after[some])
        self._before[slots[turns]], self._after[slots[turns]] = before[turns], after[turns]

    def _lengths(self, slots: Slots, before: Slots, after: Slots) -> Floats:
        sums = self._vectors[slots]
        for neighbors in (before, after):
            there = np.flatnonzero(neighbors >= 0)
            sums[there] += self._vectors[neighbors[there]]
        lengths: Floats = np.sqrt(np.einsum("ij,ij->i", sums, sums))
        return lengths


def _with_neighbors(allowed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    wider = allowed.copy()
    wider[1:] |= allowed[:-1]
    wider[:-1] |= allowed[1:]
    return wider


def _longer(array: NDArray[Number], size: int, filling: float) -> NDArray[Number]:
    longer = np.full(size, filling, array.dtype)
    longer[: len(array)] = array
    return longer


def max_float_vectors(dimension: int) -> int:
    """Return how many vectors of a store are kept as float32."""
    return MAX_FLOAT_BYTES // (BYTES_PER_NUMBER * dimension)


def vector_bytes(dimension: int, *, coded: bool) -> int:
    """Return the memory that one vector takes."""
    return dimension + BYTES_PER_SCALE if coded else dimension * BYTES_PER_NUMBER


def in_blocks(found: Iterable[tuple[int, bytes]]) -> Iterator[list[tuple[int, bytes]]]:
    """Yield lists of at most `BLOCK` items."""
    rest = iter(found)
    while some := list(islice(rest, BLOCK)):
        yield some


def _pieces(indices: NDArray[Number]) -> Iterator[NDArray[Number]]:
    return (indices[at : at + BLOCK] for at in range(0, len(indices), BLOCK))
