"""Searches over int8 codes find what exact searches find, in the same order, after any change."""

import gc
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.support.synthetic_vectors import LoadedEmbedder, SyntheticVectors
from memrelay.memory.engine.filter_sql import Conditions
from memrelay.memory.engine.memory_id import store_path
from memrelay.memory.engine.store import Store
from memrelay.memory.records.deletion import DeleteInput, delete
from memrelay.memory.search import matrix as matrices
from memrelay.memory.search.embedding.embedder import Calibration, Fingerprint
from memrelay.memory.search.embedding.questions import QuestionEmbedder
from memrelay.memory.search.int8_vectors import Int8Vectors
from memrelay.memory.search.pool import Pool, SemanticResources
from memrelay.memory.search.search import Mode, SearchInput, search
from memrelay.memory.search.vector_retriever import CODE_ERROR
from tests.memory.builders import MEMORY_ID, append_to, find, make_record, perform, write
from tests.memory.search.embedding.embedders import embed_all

RECORDS, QUESTIONS, DIMENSION = 1500, 40, 384
WORDS = ("tea", "milk", "train", "garden", "music", "rain", "paper")


def random_vectors(count: int) -> NDArray[np.float32]:
    made = np.random.default_rng(1).normal(size=(count, DIMENSION))
    return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)


def clustered_vectors(count: int) -> NDArray[np.float32]:
    made: NDArray[np.float32] = SyntheticVectors().embed(range(count))
    return made


MAKERS = {"random": random_vectors, "clustered": clustered_vectors}


class Numbered:
    """An embedder that gives a text the vector of the number that it contains."""

    fingerprint, waits = Fingerprint("numbered", DIMENSION, "0" * 16), False
    calibration = Calibration((-1.0, 1.0), (0.0, 1.0))

    def __init__(self, make: Callable[[int], NDArray[np.float32]]) -> None:
        self.vectors = make(RECORDS + QUESTIONS)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.vectors[[int(text.rpartition("#")[2].split()[0]) for text in texts]]


def record_text(number: int) -> str:
    return f"{WORDS[number % 7]} and {WORDS[number % 5]} #{number}"


def question(number: int) -> str:
    return f"{WORDS[number % 3]} {WORDS[number % 7]} #{RECORDS + number}"


def open_store(path: Path, embedder: Numbered) -> Store:
    loaded = LoadedEmbedder(embedder)  # type: ignore[arg-type]
    meaning = SemanticResources(QuestionEmbedder(loaded), Pool())  # type: ignore[arg-type]
    return Store(MEMORY_ID, store_path(path, MEMORY_ID), meaning=meaning)


@pytest.fixture(params=MAKERS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A store with turns and records without a thread."""
    embedder = Numbered(MAKERS[request.param])
    store = open_store(tmp_path, embedder)
    with store.transaction() as tx:
        for number in range(RECORDS):
            thread = f"thread{number // 20}" if number % 40 < 20 else ""
            kind = f"kind{number % 3}"
            write(tx, make_record(record_text(number), kind=kind, thread=thread, source="Ada"))
    embed_all(store, embedder)
    yield store
    store.close()


def results(store: Store, mode: Mode, **filters: object) -> list[list[tuple[str, float]]]:
    with store.transaction() as tx:
        return [
            [
                (record.guid, record.score)
                for record in search(
                    tx, SearchInput(question(number), 1 << 20, mode=mode, limit=10, **filters)
                )
            ]
            for number in range(QUESTIONS)
        ]


def use_codes(store: Store, patch: pytest.MonkeyPatch) -> None:
    """Let the store compare int8 codes from now on, whatever its size."""
    patch.setattr(matrices, "MAX_FLOAT_BYTES", 0)
    store.ranker._vectors.drop()


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_the_error_of_a_coded_cosine_is_within_its_bound(
    make: Callable[[int], NDArray[np.float32]],
) -> None:
    vectors, codes = make(2000), Int8Vectors(DIMENSION)
    codes.resize(len(vectors))
    codes.write(0, vectors)

    errors = codes.dots(len(vectors), vectors[0]) - vectors @ vectors[0]

    assert np.allclose(codes.dots(len(vectors), vectors[0]), codes[:] @ vectors[0], atol=1e-5)
    assert 0 < np.abs(errors).max() < CODE_ERROR / 2


def test_codes_find_what_an_exact_search_finds_in_the_same_order(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches = [
        (mode, filters)
        for mode in ("semantic", "hybrid")
        for filters in ({}, {"filters": {"kind": "kind1"}})
    ]
    exact = [results(store, mode, **filters) for mode, filters in searches]

    use_codes(store, monkeypatch)
    coded = [results(store, mode, **filters) for mode, filters in searches]

    assert store.ranker._vectors._matrix.is_coded
    for all_expected, all_found in zip(exact, coded, strict=True):
        pairs = list(zip(all_expected, all_found, strict=True))
        assert all(len(found) == len(expected) == 10 for expected, found in pairs)
        common = [[one for one in expected if one in found] for expected, found in pairs]
        assert sum(map(len, common)) >= 0.995 * 10 * QUESTIONS
        # scores and order are exact
        for (expected, found), both in zip(pairs, common, strict=True):
            assert [one for one in found if one in expected] == both


def test_nearest_rows_have_exact_cosines(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = Numbered(random_vectors).vectors[:QUESTIONS]

    def nearest() -> list[list[tuple[int, float]]]:
        within = Conditions({"kind": "kind1"})
        with store.transaction() as tx:
            return [list(tx.ranker.nearest(within, one, 8, (3, 4)).items()) for one in vectors]

    exact = nearest()
    use_codes(store, monkeypatch)

    assert nearest() == exact


def test_changes_and_rollbacks_reach_the_codes(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_codes(store, monkeypatch)
    embedder = store.meaning.questions.embedder.ready("")
    query = SearchInput(record_text(30), 1 << 20, mode="semantic", limit=1)

    def best(tx: Store) -> str:
        return search(tx, query)[0].content

    with store.transaction() as tx:
        (original,) = find(tx, '"30"')
        assert best(tx) == record_text(30)
    with pytest.raises(ZeroDivisionError), store.transaction() as tx:
        delete(tx, DeleteInput(guid=original.guid))
        assert best(tx) != record_text(30)
        raise ZeroDivisionError
    with store.transaction() as tx:
        assert best(tx) == record_text(30)
        append_to(tx, "now #31", guid=original.guid)  # the vector of the old text is gone
        assert best(tx) != record_text(30)
    embed_all(store, embedder)
    with store.transaction() as tx:
        assert "now #31" not in best(tx)
        delete(tx, DeleteInput(guid=original.guid))
        write(tx, make_record(record_text(30) + " again #30"))
    embed_all(store, embedder)
    with store.transaction() as tx:
        assert best(tx).endswith("again #30")


def test_the_rewrite_of_an_erasure_frees_the_codes(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_codes(store, monkeypatch)
    query = SearchInput(record_text(30), 1 << 20, mode="semantic", limit=1)
    with store.transaction() as tx:
        (record,) = find(tx, '"30"')
        before = search(tx, query)
        codes = weakref.ref(tx.ranker._vectors._matrix._vectors)
        perform(tx, "records.erase", guids=[record.guid])

    store.rewrite()
    gc.collect()

    assert before[0].guid == record.guid
    assert codes() is None
    with store.transaction() as tx:
        assert search(tx, query)[0].guid != record.guid


def test_a_growing_store_changes_to_codes_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrices, "MAX_FLOAT_BYTES", RECORDS * DIMENSION * 4)
    before = results(store, "hybrid")
    assert not store.ranker._vectors._matrix.is_coded
    size, floats = store.ranker._vectors.nbytes(), store.ranker._vectors._matrix

    # An edit does not count as another vector.
    with store.transaction() as tx:
        (record,) = find(tx, '"30"')
        append_to(tx, "now #31", guid=record.guid)
    embed_all(store, store.meaning.questions.embedder.ready(""))
    results(store, "semantic")
    assert store.ranker._vectors._matrix is floats

    with store.transaction() as tx:
        write(tx, make_record("unrelated #0", kind="kind0"))
    embed_all(store, store.meaning.questions.embedder.ready(""))
    after = results(store, "hybrid", filters={"kind": "kind1"})
    matrix = store.ranker._vectors._matrix

    assert matrix.is_coded and store.ranker._vectors.nbytes() < 0.4 * size
    assert before and after
    results(store, "hybrid")
    assert store.ranker._vectors._matrix is matrix
