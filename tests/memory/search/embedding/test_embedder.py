"""The contract of memrelay/memory/search/embedding/embedder.py, for every embedder."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from memrelay.memory.search.embedding.calibrate import calibrate
from memrelay.memory.search.embedding.embedder import (
    Calibration,
    Embedder,
    EmbeddingOptions,
    Model,
)
from memrelay.memory.search.embedding.loading import load
from tests.support.embedding_server import KEY, embedding_server

TEXTS = [
    "The meeting is at 3pm",
    "tea",
    "Ada said: let us meet in the afternoon",
    "Zürich 北京 😀",
    "word " * 3000,
    "x",
]


@pytest.fixture(scope="module", params=["local", "bge", "wordllama", "endpoint"])
def embedder(request: pytest.FixtureRequest) -> Iterator[Embedder]:
    with embedding_server() as server:
        yield load(
            EmbeddingOptions(
                request.param, url=server.url, name="letters", read_key=lambda: KEY, private=True
            )
        )


def test_each_text_gets_a_row_of_unit_length(embedder: Embedder) -> None:
    matrix = embedder.embed(TEXTS)

    assert matrix.shape == (len(TEXTS), embedder.fingerprint.dimension)
    assert matrix.dtype == np.float32
    assert matrix.flags.c_contiguous
    assert np.allclose(np.linalg.norm(matrix, axis=1), 1, atol=1e-5)


def test_an_empty_list_gets_an_empty_matrix(embedder: Embedder) -> None:
    assert embedder.embed([]).shape == (0, embedder.fingerprint.dimension)


@pytest.mark.parametrize("text", ["", " ", "\u0000", "\u0301"])
def test_a_text_without_words_gets_a_finite_row(embedder: Embedder, text: str) -> None:
    (row,) = embedder.embed([text])

    assert np.isfinite(row).all()
    assert np.linalg.norm(row) <= 1.00001


def test_a_text_gets_the_same_row_alone_and_in_a_batch(embedder: Embedder) -> None:
    together = embedder.embed(TEXTS * 6)

    alone = np.concatenate([embedder.embed([text]) for text in TEXTS])

    assert np.allclose(together, np.tile(alone, (6, 1)), atol=1e-5)


def test_several_threads_can_embed_at_once(embedder: Embedder) -> None:
    expected = embedder.embed(TEXTS)

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(embedder.embed, [TEXTS] * 8))

    assert all(np.allclose(one, expected, atol=1e-5) for one in found)


def test_the_fingerprint_names_model_dimension_and_digest(embedder: Embedder) -> None:
    name, dimension, digest = embedder.fingerprint

    assert str(embedder.fingerprint) == f"{name}/{dimension}/{digest[:16]}"
    assert int(digest, 16)


def test_the_calibration_rises_from_0_to_1(embedder: Embedder) -> None:
    (question,) = embedder.embed(["who likes tea?"])
    curve = embedder.calibration.of(question)

    found = np.interp(np.linspace(-1, 1, 201), curve.cosines, curve.scores)

    assert (np.diff(curve.cosines) > 0).all()
    assert (np.diff(found) >= 0).all()
    assert (found.min(), found.max()) == (0, pytest.approx(1, abs=0.1))
    assert 0 < curve.least_of_one <= curve.least < 1


def test_a_text_needs_a_higher_score_among_more_texts(embedder: Embedder) -> None:
    least = [embedder.calibration.least_among(count) for count in (0, 1, 30, 1000, 10**6)]

    assert least == sorted(least)
    assert least[1] == embedder.calibration.least_of_one
    assert least[-1] == pytest.approx(embedder.calibration.least)


def test_a_curve_begins_at_the_mean_cosine_with_general_sentences() -> None:
    center = np.array([0.5, 0.25], np.float32)
    curve = Calibration((0.0, 0.5), (0.0, 1.0), center=center)

    assert curve.of(np.array([1, 0], np.float32)).cosines == (0.5, 1.0)
    assert curve.of(np.array([0, 1], np.float32)).cosines == (0.25, 0.75)


@pytest.mark.parametrize(
    "curve",
    [
        Calibration(),
        Calibration((0.44, 0.67, 1.0), (0.0, 0.4, 1.0)),
        Calibration((-1.0, 0.2, 0.5, 0.9), (0.1, 0.3, 0.3, 1.0)),
    ],
)
def test_scores_follow_the_curve(curve: Calibration) -> None:
    cosines = np.linspace(-1, 1, 401, dtype=np.float32)

    expected = np.interp(cosines, curve.cosines, curve.scores)

    assert np.allclose(calibrate(cosines, curve), expected, atol=1e-6)


def test_fingerprints_differ_between_embedders() -> None:
    models: list[Model] = ["local", "bge", "wordllama"]

    found = {load(EmbeddingOptions(model)).fingerprint for model in models}

    assert len(found) == len(models)
