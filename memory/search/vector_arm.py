"""The vector arm: the cosine of the question with a record, and with a turn's window; an exact
scan, the filters first.

The matrix is kept in memory while there is room for it, and changes with the store. A larger
store's vectors are read from its
file for each search, in blocks, the newest alone where there are very many, and turns then count
without their windows.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memrelay.memory.embedding.embedder import Calibration
from memrelay.memory.embedding.loading import NO_EMBEDDER
from memrelay.memory.errors import EmbeddingFault
from memrelay.memory.search.layout import Layout
from memrelay.memory.search.matrix import Floats, Matrix, in_blocks
from memrelay.memory.search.pool import Meaning
from memrelay.memory.search.results import Found, SearchContext
from memrelay.memory.sqlite.rows import Changes, Rows
from memrelay.memory.sqlite.vectors import VectorSet, VectorTable

NUMBER = 4  # bytes, in memory
MOST_SCANNED = (
    200_000  # vectors that are read from a file for a search, the newest: a second's work
)
MOST_READ = 5_000  # that are read to compare a new text with, the newest: 25 ms
NO_VECTORS = (
    "this store has no vectors yet: they are made in the background once an agent of the bundle searches with `mode` "
    "hybrid or semantic, or an entry is written to a named memory; see `memrelay status`"
)


@dataclass(frozen=True, slots=True)
class VectorFound(Found):
    """With what could be compared."""

    known: NDArray[np.bool_]  # by place: which records have a vector
    least: float  # the score from which on a record is found for its meaning alone
    alone: Floats  # by place: the score without the window


NONE = np.zeros(0, np.float32)
NOTHING_THERE = VectorFound(
    "vector", NONE, NONE, np.zeros(0, bool), 0.0, NONE
)  # of a store without records


class VectorArm:
    """Of one store; told of what changes by its ranker and its table of vectors."""

    def __init__(self, table: VectorTable, meaning: Meaning | None) -> None:
        """Nothing is read before the first search."""
        self._table, self._meaning = table, meaning
        self._matrix: Matrix | None = None
        self._of: tuple[int, str] | None = (
            None  # the set that the matrix has: its place and its embedder
        )
        self.changes = table.changes = Changes()  # told of every edit too
        self._seen: set[int] = set()  # what the matrix was told of in the transaction that is open
        self._anew = False  # whether it was read anew there

    def search(self, scene: SearchContext, asked: str, *, floor: bool = True) -> VectorFound:
        """Scores of all records that have a vector; without the `floor` any is enough to be found.
        Raises EmbeddingFault, and
        VectorAwaited.
        """
        meaning = self._meaning
        if meaning is None or not meaning.questions.embedder.configured:
            raise EmbeddingFault(NO_EMBEDDER)
        one = self._table.serving()
        if one is None and not len(scene.layout):
            return NOTHING_THERE
        if one is None:
            raise EmbeddingFault(NO_VECTORS)
        question, embedder = meaning.questions.ask(asked, one.fingerprint)
        budget = meaning.matrices.budget
        if len(scene.layout) * one.dimension * NUMBER > budget:
            self.drop()
            newest = int(scene.layout.row.max(initial=0)) - MOST_SCANNED
            raw, known = _scanned(
                in_blocks(self._table.read(one, max(newest, 0))), scene.layout, question
            )
            alone = raw
        else:
            raw, known, alone = self._current(one).cosines(scene.layout, question, scene.allowed)
            meaning.matrices.used(self)
        calibration = embedder.calibration
        return VectorFound(
            "vector",
            raw,
            _score(raw, known, calibration),
            known,
            calibration.least if floor else 0.0,
            _score(alone, known, calibration),
        )

    def nearest(self, rows: Rows, question: Floats, most: int, beside: Rows) -> dict[int, float]:
        """Row -> cosine of those of `rows` that are nearest to a question of the set that is
        searched, and of those `beside`;
        both ascending. Where the matrix has no room, the newest `MOST_READ` of the rows are
        compared.
        """
        one, meaning = self._table.serving(), self._meaning
        if one is None or meaning is None:
            return {}
        last = max([*rows[-1:].tolist(), *beside[-1:].tolist()], default=0)
        if (last + 1) * one.dimension * NUMBER > meaning.matrices.budget:
            self.drop()
            rows, matrix = rows[-MOST_READ:], Matrix(one.dimension)  # of these alone, and not kept
            matrix.add(self._table.read_rows(one, np.union1d(rows, beside).tolist()))
        else:
            matrix = self._current(one)
            meaning.matrices.used(self)
        near = matrix.nearest(rows, question, most, room=meaning.matrices.budget)
        return near | matrix.nearest(beside, question, len(beside))

    def committed(self) -> None:
        """What the matrix has seen stays."""
        self._seen.clear()
        self._anew = False

    def undone(self) -> None:
        """What the matrix has seen since the last commit is looked at again."""
        if self._anew:
            self.drop()
        for row in self._seen:
            self.changes.add(row)
        self.committed()

    def drop(self) -> None:
        """Gives back what is kept."""
        self._matrix = self._of = None

    def close(self) -> None:
        """The store is closed."""
        self._table.changes = None
        if self._meaning is not None:
            self._meaning.matrices.forget(self)

    def nbytes(self) -> int:
        """What is kept."""
        return self._matrix.nbytes if self._matrix is not None else 0

    def _current(self, one: VectorSet) -> Matrix:
        """The matrix as of now."""
        matrix, of = self._matrix, (one.place, one.fingerprint)
        if matrix is None or of != self._of or self.changes.everything or matrix.wasteful:
            matrix, self._of = Matrix(one.dimension), of
            matrix.add(self._table.read(one))
            self._matrix, self._anew = matrix, True
        elif self.changes:
            rows = sorted(self.changes.rows)
            self._seen.update(rows)
            matrix.remove(np.array(rows, np.int64))
            matrix.add(self._table.read_rows(one, rows))
        self.changes.clear()
        return matrix


def _score(raw: Floats, known: NDArray[np.bool_], calibration: Calibration) -> Floats:
    if (calibration.cosines, calibration.scores) == (
        (0.0, 1.0),
        (0.0, 1.0),
    ):  # most: a tenth of the general way
        return np.clip(raw, 0, 1)
    score: Floats = (
        np.interp(raw, calibration.cosines, calibration.scores).astype(np.float32) * known
    )
    return score


def _scanned(
    blocks: Iterable[list[tuple[int, bytes]]], layout: Layout, question: Floats
) -> tuple[Floats, NDArray[np.bool_]]:
    """(cosine, whether there is one) of each place."""
    size = int(layout.row.max(initial=0)) + 1
    cosines, known = np.zeros(size, np.float32), np.zeros(size, bool)  # by row
    for some in blocks:
        rows = np.array([row for row, vector in some if vector and row < size], np.int64)
        vectors = b"".join([vector for row, vector in some if row < size])
        cosines[rows] = np.vecdot(
            np.frombuffer(vectors, "<f2").reshape(len(rows), len(question)).astype(np.float32),
            question,
        )
        known[rows] = True
    return cosines[layout.row], known[layout.row]
