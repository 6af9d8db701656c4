"""The vector retriever: the exact cosine of the question with each record and each turn's window.

Filters apply first. The matrix stays in memory while it fits, and follows the store's changes.
The vectors of a larger store are read from its file in blocks for each search: only the newest
if there are very many, and without windows.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memrelay.memory.engine.row_arrays import Rows
from memrelay.memory.engine.rows import Changes
from memrelay.memory.engine.vectors import VectorSet, VectorTable
from memrelay.memory.errors import EmbeddingFault
from memrelay.memory.search.embedding.embedder import Calibration
from memrelay.memory.search.embedding.loading import NO_EMBEDDER
from memrelay.memory.search.layout import Layout
from memrelay.memory.search.matrix import Floats, Matrix, in_blocks
from memrelay.memory.search.pool import SemanticResources
from memrelay.memory.search.results import RetrieverScores, SearchContext

BYTES_PER_NUMBER = 4
# Newest vectors read from a file for one search: about one second.
MAX_SCANNED = 200_000
# Newest vectors read from a file to find entries near a new text: about 25 ms.
MAX_READ = 5_000
NO_VECTORS = (
    "this store has no vectors yet: run `memrelay records embed PIPELINE` (POST records/embed), or "
    "set `vectors` to true in `stores` of the bundle, and a background task computes them; "
    "`memrelay status` counts the missing ones"
)

LOADING = "the embedder is loading: search again, or set `wait`"


@dataclass(frozen=True, slots=True)
class VectorScores(RetrieverScores):
    """Scores of the vector retriever, with what could be compared."""

    known: NDArray[np.bool_]  # by place: whether the record has a vector
    min_score: float  # the minimum score to be found by meaning alone
    standalone: Floats  # by place: the score without the window


NONE = np.zeros(0, np.float32)
EMPTY_SCORES = VectorScores("vector", NONE, NONE, np.zeros(0, bool), 0.0, NONE)


class VectorArm:
    """The vectors of one store. The ranker and the vector table report changes to it."""

    def __init__(self, table: VectorTable, meaning: SemanticResources | None) -> None:
        self._table, self._meaning = table, meaning
        self._matrix: Matrix | None = None
        # the set in the matrix: its place and embedder
        self._matrix_set: tuple[int, str] | None = None
        self.changes = table.changes = Changes()  # also receives every edit
        self._updated_rows: set[int] = set()  # rows the matrix updated in the open transaction
        self._rebuilt = False  # whether the open transaction rebuilt the matrix

    def search(self, context: SearchContext, question: str, *, floor: bool = True) -> VectorScores:
        """Score all records that have a vector. Without `floor`, any score is enough.

        Raises EmbeddingFault: when no embedder is configured, or the store has no vectors.
        Raises VectorPending: when the vector of the question is not computed yet.
        """
        meaning = self._meaning
        if meaning is None or not meaning.questions.embedder.configured:
            raise EmbeddingFault(NO_EMBEDDER)
        one = self._table.serving()
        if one is None and not len(context.layout):
            return EMPTY_SCORES
        if one is None:
            raise EmbeddingFault(NO_VECTORS)
        vector, embedder = meaning.questions.ask(question, one.fingerprint)
        budget = meaning.matrices.largest
        if len(context.layout) * one.dimension * BYTES_PER_NUMBER > budget:
            self.drop()
            newest = int(context.layout.row.max(initial=0)) - MAX_SCANNED
            raw, known = _scan(
                in_blocks(self._table.read(one, max(newest, 0))), context.layout, vector
            )
            alone = raw
        else:
            raw, known, alone = self._current(one).cosines(context.layout, vector, context.allowed)
            meaning.matrices.mark_used(self)
        calibration = embedder.calibration
        return VectorScores(
            "vector",
            raw,
            _score(raw, known, calibration),
            known,
            calibration.least if floor else 0.0,
            _score(alone, known, calibration),
        )

    def has_missing(self, context: SearchContext, scores: VectorScores) -> bool:
        """Return whether a record that the search may find has no vector yet."""
        missing = ~scores.known if context.allowed is None else context.allowed & ~scores.known
        one = self._table.serving() if missing.any() else None
        if one is None:
            return False
        return self._table.has_missing(one, context.layout.row[missing].tolist())

    def nearest(self, rows: Rows, question: Floats, most: int, beside: Rows) -> dict[int, float]:
        """Return row -> cosine of the `most` rows nearest to a vector, and of rows `beside`.

        Both row lists are ascending. If the matrix does not fit into memory, only the newest
        `MAX_READ` rows are compared.
        """
        one, meaning = self._table.serving(), self._meaning
        if one is None or meaning is None:
            return {}
        last = max([*rows[-1:].tolist(), *beside[-1:].tolist()], default=0)
        if (last + 1) * one.dimension * BYTES_PER_NUMBER > meaning.matrices.largest:
            self.drop()
            rows, matrix = rows[-MAX_READ:], Matrix(one.dimension)  # temporary, not kept
            matrix.add(self._table.read_rows(one, np.union1d(rows, beside).tolist()))
        else:
            matrix = self._current(one)
            meaning.matrices.mark_used(self)
        near = matrix.nearest(rows, question, most, room=meaning.matrices.largest)
        return near | matrix.nearest(beside, question, len(beside))

    def committed(self) -> None:
        """Keep the matrix as the transaction left it."""
        self._updated_rows.clear()
        self._rebuilt = False

    def undone(self) -> None:
        """Mark rows for update that the rolled-back transaction changed in the matrix."""
        if self._rebuilt:
            self.drop()
        for row in self._updated_rows:
            self.changes.add(row)
        self.committed()

    def drop(self) -> None:
        """Free the matrix."""
        self._matrix = self._matrix_set = None

    def close(self) -> None:
        """Detach from a store that is closing."""
        self._table.changes = None
        if self._meaning is not None:
            self._meaning.matrices.forget(self)

    def nbytes(self) -> int:
        """Return the size of the matrix."""
        return self._matrix.nbytes if self._matrix is not None else 0

    def _current(self, one: VectorSet) -> Matrix:
        """Return the matrix, updated to the current rows."""
        matrix, of = self._matrix, (one.place, one.fingerprint)
        if (
            matrix is None
            or of != self._matrix_set
            or self.changes.everything
            or matrix.is_wasteful
        ):
            matrix, self._matrix_set = Matrix(one.dimension), of
            matrix.add(self._table.read(one))
            self._matrix, self._rebuilt = matrix, True
        elif self.changes:
            rows = sorted(self.changes.rows)
            self._updated_rows.update(rows)
            matrix.remove(np.array(rows, np.int64))
            matrix.add(self._table.read_rows(one, rows))
        self.changes.clear()
        return matrix


def _score(raw: Floats, known: NDArray[np.bool_], calibration: Calibration) -> Floats:
    # the common case, at a tenth of the cost of interpolation
    if (calibration.cosines, calibration.scores) == ((0.0, 1.0), (0.0, 1.0)):
        return np.clip(raw, 0, 1)
    score: Floats = (
        np.interp(raw, calibration.cosines, calibration.scores).astype(np.float32) * known
    )
    return score


def _scan(
    blocks: Iterable[list[tuple[int, bytes]]], layout: Layout, question: Floats
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return (cosine, whether there is a vector) by place."""
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
