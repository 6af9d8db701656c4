"""Nearest vectors by binary codes: cosines exactly as in a full scan, and rarely a missed one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.support.synthetic_vectors import SyntheticVectors
from memrelay.memory.search import binary_codes as sketch
from memrelay.memory.search import matrix as matrices
from memrelay.memory.search.matrix import Matrix
from tests.support.tiers import first_always

DIMENSION = 72


def make_vectors(count: int, directions: int, noise: float, seed: int) -> np.ndarray:
    """Return vectors that lie mostly in few directions, as embeddings do. Some are duplicates or
    zero."""
    chance = np.random.default_rng(seed)
    made = chance.normal(size=(count, directions)) @ chance.normal(size=(directions, DIMENSION))
    made += noise * chance.normal(size=made.shape)
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    made[chance.integers(0, count, count // 4)] = made[chance.integers(0, count, count // 4)]
    made[chance.integers(0, count, count // 50)] = 0
    return made.astype("<f2")


def full_scan(
    vectors: dict[int, np.ndarray], rows: np.ndarray, question: np.ndarray, most: int
) -> list[tuple[int, float]]:
    """Compare with every vector."""
    there = [row for row in rows.tolist() if row in vectors]
    dots = [float(np.vecdot(vectors[row].astype(np.float32), question)) for row in there]
    return sorted(zip(there, dots, strict=True), key=lambda one: (-one[1], one[0]))[:most]


@settings(max_examples=40)
@given(
    count=st.integers(1, 600),
    directions=st.integers(1, DIMENSION),
    noise=st.sampled_from([0, 0.01, 0.3, 10]),
    most=st.integers(1, 20),
    share=st.sampled_from([0.1, 0.5, 1]),
    seed=st.integers(0, 1 << 20),
)
def test_results_have_the_cosines_and_order_of_a_full_scan(
    *, count: int, directions: int, noise: float, most: int, share: float, seed: int
) -> None:
    made, chance = make_vectors(2 * count, directions, noise, seed), np.random.default_rng(seed)
    vectors, matrix = dict(enumerate(made[:count], 1)), Matrix(DIMENSION)
    matrix.add([(row, vector.tobytes()) for row, vector in vectors.items()])
    question = made[seed % len(made)].astype(np.float32)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matrices, "MIN_CODED", 0)
        for picked in (sketch.PICKED, 30, 0):  # all candidates, some, and no more than requested
            patch.setattr(sketch, "PICKED", picked)
            changed = np.sort(chance.choice(count, (0, 1, count)[picked % 3], replace=False)) + 1
            matrix.remove(changed)
            vectors |= dict(zip(changed.tolist(), made[count : count + len(changed)], strict=True))
            matrix.add([(row, vectors[row].tobytes()) for row in changed.tolist()])
            rows = np.flatnonzero(chance.random(count + 5) < share) + 1

            found, scanned = (
                list(matrix.nearest(rows, question, most).items()),
                full_scan(vectors, rows, question, count + 5),
            )
            assert found == [one for one in scanned if one in found] and len(found) == min(
                most, len(scanned)
            )
            assert picked < count or found == scanned[:most]


# Spread in all directions, and all in one corner as with some embedders.
@pytest.mark.parametrize("shift", first_always(2.0, 0.0))
def test_nearly_all_of_the_eight_nearest_vectors_are_found(shift: float) -> None:
    embedder = SyntheticVectors()
    stored, questions = (
        embedder.embed(range(count)) + shift * np.eye(1, 384) for count in (20_000, 100)
    )
    stored, questions = (
        made / np.linalg.norm(made, axis=1, keepdims=True) for made in (stored, questions)
    )
    matrix, vectors = Matrix(384), stored.astype("<f2")
    matrix.add([(row, vector.tobytes()) for row, vector in enumerate(vectors)])
    rows, missed = np.arange(len(vectors)), 0
    unpacked = vectors.astype(np.float32)

    for question in questions.astype(np.float32):
        cosines = unpacked @ question
        found = matrix.nearest(rows, question, 8)
        assert next(iter(found)) == cosines.argmax()
        missed += len(set(np.argpartition(-cosines, 8)[:8].tolist()) - set(found))
    assert missed <= 8


def test_without_memory_for_binary_codes_the_results_are_the_same() -> None:
    matrix, made = Matrix(DIMENSION), make_vectors(9000, 8, 0.1, 1)
    matrix.add([(row, vector.tobytes()) for row, vector in enumerate(made, 1)])
    rows, question, before = np.arange(1, 9001), made[0].astype(np.float32), matrix.nbytes
    bare = 9000 * DIMENSION * 4

    without = matrix.nearest(rows, question, 5, room=bare)
    assert matrix.nbytes == before
    assert (
        matrix.nearest(rows, question, 5, room=2 * bare) == without
        and before < matrix.nbytes < 2 * before
    )
    assert matrix.nearest(rows, question, 5, room=bare) == without and matrix.nbytes == before


@pytest.mark.parametrize(
    ("removed", "again"), [([], False), ([1, 2, 3], False), ([1, 2, 3], True), ([3, 9000], True)]
)
def test_the_vector_count_follows_additions_and_removals(
    removed: list[int], *, again: bool
) -> None:
    matrix, made = Matrix(DIMENSION), make_vectors(5000, 8, 0.1, 1)
    matrix.add([(row, vector.tobytes()) for row, vector in enumerate(made, 1)])

    # a repeated removal or addition counts once
    for _ in range(3):
        matrix.remove(np.array(removed, np.int64))
        matrix.add(
            [(row, made[row - 1].tobytes()) for row in removed if again and row <= len(made)]
        )

    assert matrix._live == int((matrix._slot_of >= 0).sum())
