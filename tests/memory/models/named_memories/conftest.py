"""A store with the built-in embedder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from memrelay.memory.engine.memory_id import store_path
from memrelay.memory.engine.store import Store
from memrelay.memory.search.embedding.embedder import EmbeddingOptions
from memrelay.memory.search.embedding.loading import LazyEmbedder
from memrelay.memory.search.embedding.questions import QuestionEmbedder
from memrelay.memory.search.pool import Pool, SemanticResources
from tests.memory.builders import MEMORY_ID


@pytest.fixture(scope="module")
def meaning() -> Iterator[SemanticResources]:
    """The built-in embedder."""
    questions = QuestionEmbedder(LazyEmbedder(EmbeddingOptions("local")))
    yield SemanticResources(questions, Pool())
    questions.close()


@pytest.fixture
def embedded_tx(tmp_path: Path, meaning: SemanticResources) -> Iterator[Store]:
    """The open transaction of an empty store with the built-in embedder."""
    store = Store(MEMORY_ID, store_path(tmp_path, MEMORY_ID), meaning)
    with store.transaction() as tx:
        yield tx
    store.close()
