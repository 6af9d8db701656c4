"""The matrix returns the cosines of a plain computation after any change of the store."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memrelay.memory.engine.row_metadata import RowMetadata, Turns
from memrelay.memory.search.layout import Layout
from memrelay.memory.search.matrix import Matrix

DIMENSION = 3


def unit(numbers: np.ndarray) -> np.ndarray:
    return (numbers / np.maximum(np.linalg.norm(numbers, axis=-1, keepdims=True), 1e-9)).astype(
        "<f2"
    )


def make_vectors(count: int, seed: int) -> np.ndarray:
    return unit(np.random.default_rng(seed).normal(size=(count, DIMENSION)))


def make_layout(threads: list[int | None]) -> Layout:
    """Return a layout of records 1 to n, each with its thread or None."""
    rows = np.arange(1, len(threads) + 1)
    names = sorted({thread for thread in threads if thread is not None})
    turns = [
        Turns(
            str(name),
            [row for row, thread in enumerate(threads, 1) if thread == name],
            [row for row, thread in enumerate(threads, 1) if thread == name],
            ["Ada" for thread in threads if thread == name],
        )
        for name in names
    ]
    return Layout.empty().updated(
        np.zeros(0, np.int64), RowMetadata(rows, *[np.ones(len(rows), np.int64)] * 2, turns)
    )


def expected_cosines(
    layout: Layout, vectors: dict[int, np.ndarray], question: np.ndarray
) -> np.ndarray:
    """Compute the cosines directly. A turn gets the mean of its cosine and that of its window."""
    found = np.zeros(len(layout))
    for place, row in enumerate(layout.row):
        if row not in vectors:
            continue
        own = vectors[row].astype(float)
        found[place] = own @ question
        if layout.source[place] >= 0:
            near = [
                other
                for other in (place - 1, place, place + 1)
                if 0 <= other < len(layout) and layout.thread[other] == layout.thread[place]
            ]
            window = sum(
                vectors[layout.row[other]].astype(float)
                for other in near
                if layout.row[other] in vectors
            )
            found[place] = (
                found[place] + window @ question / max(np.linalg.norm(window), 1e-6)
            ) / 2
    return found


def cosines(
    matrix: Matrix, layout: Layout, question: np.ndarray, allowed: np.ndarray | None = None
) -> np.ndarray:
    return matrix.cosines(layout, question.astype(np.float32), allowed)[0]


@given(
    threads=st.lists(st.sampled_from([None, 1, 2]), max_size=40),
    lacking=st.sets(st.integers(1, 40)),
    edited=st.lists(st.integers(1, 40), max_size=5),
    seed=st.integers(0, 1000),
)
def test_cosines_equal_a_plain_computation_after_any_changes(
    threads: list[int | None], lacking: set[int], edited: list[int], seed: int
) -> None:
    question = unit(np.ones(DIMENSION)).astype(float)
    all_vectors = make_vectors(len(threads), seed)
    vectors = {
        row: all_vectors[row - 1] for row in range(1, len(threads) + 1) if row not in lacking
    }
    layout, matrix = make_layout(threads), Matrix(DIMENSION)
    matrix.add([(row, vector.tobytes()) for row, vector in vectors.items()])

    assert np.allclose(
        cosines(matrix, layout, question), expected_cosines(layout, vectors, question), atol=1e-3
    )
    for step, row in enumerate(edited):
        matrix.remove(np.array([row]))
        vectors.pop(row, None)
        if step % 2 and row <= len(threads):
            vectors[row] = make_vectors(1, seed + step + 1)[0]
            matrix.add([(row, vectors[row].tobytes())])
        assert np.allclose(
            cosines(matrix, layout, question),
            expected_cosines(layout, vectors, question),
            atol=1e-3,
        )


@pytest.mark.parametrize("share", [0.02, 0.5, 1.0])
def test_a_filter_does_not_change_the_cosine_of_an_allowed_record(share: float) -> None:
    layout, matrix = make_layout([place // 20 for place in range(2000)]), Matrix(DIMENSION)
    matrix.add([(row, vector.tobytes()) for row, vector in enumerate(make_vectors(2000, 1), 1)])
    allowed = np.random.default_rng(2).random(2000) < share

    found = cosines(matrix, layout, np.ones(DIMENSION), allowed)

    assert np.allclose(
        found[allowed], cosines(matrix, layout, np.ones(DIMENSION))[allowed], atol=1e-6
    )


def test_a_late_turn_changes_the_windows_of_its_neighbors() -> None:
    layout, matrix = make_layout([1, 1]), Matrix(DIMENSION)
    vectors = dict(enumerate(make_vectors(3, 5), 1))
    matrix.add([(row, vectors[row].tobytes()) for row in (1, 2)])
    question = unit(np.ones(DIMENSION)).astype(float)
    cosines(matrix, layout, question)

    new = RowMetadata(np.array([3]), np.array([1]), np.array([1]), [Turns("1", [3], [1], ["Ada"])])
    late = layout.updated(np.zeros(0, np.int64), new)
    matrix.add([(3, vectors[3].tobytes())])

    assert late.row.tolist() == [1, 3, 2]
    assert np.allclose(
        cosines(matrix, late, question), expected_cosines(late, vectors, question), atol=1e-3
    )


def test_changed_records_mark_the_matrix_as_wasteful() -> None:
    matrix = Matrix(DIMENSION)

    for _ in range(3):
        matrix.remove(np.arange(5000))
        matrix.add([(row, vector.tobytes()) for row, vector in enumerate(make_vectors(5000, 1))])

    assert matrix.is_wasteful
