"""The vector retriever: the cosine of the question with each record and each turn's window.

Filters apply first. The matrix stays in memory while it fits, and follows the store's changes.
The matrix of a large store holds int8 codes: the best records are scored again from their stored
vectors. The vectors of a store that does not fit are read from its file in blocks for each search:
only the newest if there are very many, and without windows.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from memrelay.memory.engine.row_arrays import Rows
from memrelay.memory.engine.rows import Changes
from memrelay.memory.engine.vectors import VectorSet, VectorTable
from memrelay.memory.errors import EmbeddingFault
from memrelay.memory.search.embedding.calibrate import calibrate
from memrelay.memory.search.embedding.embedder import Calibration
from memrelay.memory.search.embedding.loading import NO_EMBEDDER
from memrelay.memory.search.layout import Layout, Places
from memrelay.memory.search.matrix import (
    Floats,
    Matrix,
    in_blocks,
    max_float_vectors,
    vector_bytes,
)
from memrelay.memory.search.pool import SemanticResources
from memrelay.memory.search.results import RetrieverScores, SearchContext

# Of int8 codes, the best are scored again from stored vectors: this many times the wanted records.
RESCORED = 4
# The largest error of a cosine that is computed from int8 codes.
CODE_ERROR = 0.01
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
    # Computes (cosine, score, score without window) of places from stored vectors. None if all
    # scores are exact.
    stored: Callable[[Places], tuple[Floats, Floats, Floats]] | None = None

    def rescored(self, places: Places) -> "VectorScores":
        """Return scores that are exact at these places."""
        if self.stored is None or not len(places):
            return self
        columns = self.raw.copy(), self.score.copy(), self.standalone.copy()
        for column, exact in zip(columns, self.stored(places), strict=True):
            column[places] = exact
        raw, score, standalone = columns
        return replace(self, raw=raw, score=score, standalone=standalone)


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
            none = np.zeros(0, np.float32)
            return VectorScores("vector", none, none, none > 0, 0.0, none)
        if one is None:
            raise EmbeddingFault(NO_VECTORS)
        vector, embedder = meaning.questions.ask(question, one.fingerprint)
        calibration, stored = embedder.calibration.of(vector), None
        if not self._fits(one, len(context.layout)):
            self.drop()
            newest = int(context.layout.row.max(initial=0)) - MAX_SCANNED
            raw, known = _scan(
                in_blocks(self._table.read(one, max(newest, 0))), context.layout, vector
            )
            alone = raw
        else:
            matrix = self._current(one)
            raw, known, alone = matrix.cosines(context.layout, vector, context.allowed)
            if matrix.is_coded:
                stored = partial(self._stored_scores, one, context.layout, vector, calibration)
            meaning.matrices.mark_used(self)
        return VectorScores(
            "vector",
            raw,
            _score(raw, known, calibration),
            known,
            calibration.least_among(len(context.layout)) if floor else 0.0,
            _score(alone, known, calibration),
            stored,
        )

    def has_missing(self, context: SearchContext, scores: VectorScores) -> bool:
        """Return whether a record that the search may find has no vector yet."""
        missing = ~scores.known if context.allowed is None else context.allowed & ~scores.known
        one = self._table.serving() if missing.any() else None
        if one is None:
            return False
        return self._table.has_missing(one, context.layout.row[missing].tolist())

    def find_vector(self, row: int) -> tuple[Floats, str] | None:
        """Return the stored vector of a row with the fingerprint of its embedder, None if there is
        none."""
        one = self._table.serving()
        found = [] if one is None else self._table.read_rows(one, [row])
        if one is None or not found or not found[0][1]:
            return None
        return np.frombuffer(found[0][1], "<f2").astype(np.float32), one.fingerprint

    def nearest(self, rows: Rows, question: Floats, most: int, beside: Rows) -> dict[int, float]:
        """Return row -> cosine of the `most` rows nearest to a vector, and of rows `beside`.

        Both row lists are ascending. If the matrix does not fit into memory, only the newest
        `MAX_READ` rows are compared.
        """
        one, meaning = self._table.serving(), self._meaning
        if one is None or meaning is None:
            return {}
        last = max([*rows[-1:].tolist(), *beside[-1:].tolist()], default=0)
        room = meaning.matrices.largest
        if not self._fits(one, last + 1):
            self.drop()
            rows = rows[-MAX_READ:]
            matrix = self._stored_matrix(one, np.union1d(rows, beside))
        else:
            matrix = self._current(one)
            meaning.matrices.mark_used(self)
            if matrix.is_coded:
                near = matrix.nearest(rows, question, RESCORED * most, room=room)
                rows = np.array(sorted(near), np.int64)
                matrix = self._stored_matrix(one, np.union1d(rows, beside))
        near = matrix.nearest(rows, question, most, room=room)
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

    def _fits(self, one: VectorSet, records: int) -> bool:
        """Return whether the matrix of this many records may be kept in memory."""
        coded = records > max_float_vectors(one.dimension)
        size = records * vector_bytes(one.dimension, coded=coded)
        return self._meaning is not None and size <= self._meaning.matrices.largest

    def _stored_matrix(self, one: VectorSet, rows: Rows) -> Matrix:
        """Return a temporary matrix of the stored vectors of these rows."""
        matrix = Matrix(one.dimension)
        matrix.add(self._table.read_rows(one, rows.tolist()))
        return matrix

    def _stored_scores(
        self,
        one: VectorSet,
        layout: Layout,
        question: Floats,
        calibration: Calibration,
        places: Places,
    ) -> tuple[Floats, Floats, Floats]:
        """Return (cosine, score, score without window) of places from their stored vectors."""
        around = np.unique(np.clip(places[:, None] + (-1, 0, 1), 0, len(layout) - 1))
        number_of = {row: number for number, row in enumerate(layout.row[around].tolist())}
        matrix = Matrix(one.dimension)
        matrix.add(
            (number_of[row], vector) for row, vector in self._table.read_rows(one, number_of)
        )
        raw, known, alone = matrix.cosines(layout.part(around), question, None)
        score, standalone = _score(raw, known, calibration), _score(alone, known, calibration)
        at = np.searchsorted(around, places)
        return raw[at], score[at], standalone[at]

    def _current(self, one: VectorSet) -> Matrix:
        """Return the matrix, updated to the current rows."""
        matrix, of = self._matrix, (one.place, one.fingerprint)
        if (
            matrix is None
            or of != self._matrix_set
            or self.changes.everything
            or matrix.is_wasteful
            or matrix.is_outgrown
        ):
            self.drop()
            coded = self._table.has_more_than(one, max_float_vectors(one.dimension))
            matrix, self._matrix_set = Matrix(one.dimension, coded=coded), of
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
    return calibrate(raw, calibration) * known


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
