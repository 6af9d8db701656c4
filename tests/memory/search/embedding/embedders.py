"""Embedders for tests, and helpers that compute and await vectors."""

from collections.abc import Callable
from typing import TypeVar

from memrelay.memory.engine.store import Store
from memrelay.memory.errors import VectorPending
from memrelay.memory.search.embedding.backfill import compute_vectors, next_task, store_vectors
from memrelay.memory.search.embedding.embedder import Embedder, EmbeddingOptions
from memrelay.memory.search.embedding.loading import LazyEmbedder
from tests.support.embedding_server import KEY, EmbeddingServer
from tests.support.waiting import wait_for

Answer = TypeVar("Answer")


def stopped_clock() -> float:
    """A clock that stands still, so that a vector is awaited on a slow machine too."""
    return 1.0


def endpoint_options(server: EmbeddingServer) -> EmbeddingOptions:
    return EmbeddingOptions(
        "endpoint", 1, server.url, "letters", lambda: KEY, private=True, timeout_s=5
    )


def lazy_endpoint(server: EmbeddingServer) -> LazyEmbedder:
    return LazyEmbedder(endpoint_options(server))


def embed_all(store: Store, embedder: Embedder) -> None:
    """Make all outstanding vectors, as the worker does in the background."""
    while (task := next_task(store, embedder, True, 100)) is not None:
        if task.one is not None:
            store_vectors(store, task.one, compute_vectors(embedder, task.texts))


def wait_for_answer(ask: Callable[[], Answer]) -> Answer:
    """Retry a call until the vector of its question exists. Return its result."""

    def try_once() -> list[Answer]:
        try:
            return [ask()]
        except VectorPending:
            return []

    return wait_for(try_once, "the question has its vector", 20)[0]
