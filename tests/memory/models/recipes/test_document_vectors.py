"""Documents with the built-in embedder: what gets vectors, and searches by meaning."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memrelay.memory.engine.memory_id import store_path
from memrelay.memory.engine.store import Store
from memrelay.memory.models.recipes import NODE_KIND
from memrelay.memory.models.recipes.documents import split_text
from memrelay.memory.search.embedding.embedder import EmbeddingOptions
from memrelay.memory.search.embedding.loading import LazyEmbedder
from memrelay.memory.search.embedding.questions import QuestionEmbedder
from memrelay.memory.search.pool import Pool, SemanticResources
from tests.memory.builders import RECIPES_ID, make_record, perform, write
from tests.memory.search.embedding.embedders import embed_all, wait_for_answer

PETS = "My cat sleeps all day on the sofa."
MONEY = "The invoice is due in May and must be paid by bank transfer."


@pytest.fixture(scope="module")
def meaning() -> Iterator[SemanticResources]:
    """The built-in embedder."""
    questions = QuestionEmbedder(LazyEmbedder(EmbeddingOptions("local")))
    yield SemanticResources(questions, Pool())
    questions.close()


@pytest.fixture
def store(tmp_path: Path, meaning: SemanticResources) -> Iterator[Store]:
    store = Store(RECIPES_ID, store_path(tmp_path, RECIPES_ID), meaning)
    yield store
    store.close()


def put(store: Store, uri: str, text: str, **keys: Any) -> None:
    with store.transaction() as tx:
        perform(tx, "documents.put", collection="docs", uri=uri, text=text, **keys)


def embed(store: Store) -> None:
    assert store.meaning is not None
    embed_all(store, store.meaning.questions.embedder.get())


def search(store: Store, query: str, **keys: Any) -> Any:
    def ask() -> Any:
        with store.transaction() as tx:
            return perform(tx, "documents.search", collection="docs", query=query, **keys)

    return wait_for_answer(ask)


def count_vectors(store: Store) -> int:
    found = store._connection.execute("SELECT count(*) FROM vectors_0 WHERE vector != x''")
    return int(found.get)


def test_only_documents_get_vectors(store: Store) -> None:
    put(store, "pets", PETS)
    with store.transaction() as tx:
        write(tx, make_record("a node about cats", kind=NODE_KIND))

    embed(store)

    assert count_vectors(store) == 1 and store.vectors.backlog(store.vectors.sets()[0]) == 0


def test_the_text_of_a_chunk_is_embedded_without_a_speaker(store: Store) -> None:
    assert store.meaning is not None
    put(store, "pets", PETS)
    embedder = store.meaning.questions.embedder.get()
    store.vectors.begin("x", embedder.fingerprint.dimension)

    assert store.vectors.outstanding(store.vectors.sets()[0], 9) == [(1, PETS)]


@pytest.mark.parametrize("mode", ["hybrid", "semantic"])
def test_documents_are_found_by_their_meaning(store: Store, mode: str) -> None:
    put(store, "pets", PETS)
    put(store, "money", MONEY)
    embed(store)

    found = search(store, "the kitten is asleep", mode=mode)

    assert [item["uri"] for item in found.items] == ["pets"]
    assert 0.5 <= found.items[0]["score"] <= 1
    assert [one.code for one in found.warnings] in ([], ["below_min_score"])
    everything = search(store, "the kitten is asleep", mode=mode, min_score=0)
    assert everything.items[0] == found.items[0] and not everything.warnings


def test_a_search_warns_while_a_vector_is_missing(store: Store) -> None:
    put(store, "pets", PETS)
    embed(store)
    put(store, "money", MONEY)

    found = search(store, "invoice", min_score=0)

    assert "pending_vectors" in [one.code for one in found.warnings]
    assert found.items[0]["uri"] == "money"


def test_an_edit_keeps_the_vectors_of_equal_chunks(store: Store) -> None:
    text = "".join(f"Sentence number {number} is about cats. " for number in range(100))
    put(store, "pets", text)
    embed(store)
    chunks = len(list(split_text(text)))

    put(store, "pets", f"{text}The end.", title="Pets")

    assert count_vectors(store) == chunks - 1 > 1
    embed(store)
    assert count_vectors(store) == chunks
