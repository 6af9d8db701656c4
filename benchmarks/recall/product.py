"""Memrelay: a store file with records.write and records.search, as the memory blocks use them."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.recall.collection import Document
from memrelay.memory.engine.memory_id import store_path
from memrelay.memory.engine.store import Store
from memrelay.memory.records.ids import derive_guid
from memrelay.memory.records.record import DEFAULT_KIND
from memrelay.memory.records.writing import WriteInput, write
from memrelay.memory.search.embedding.backfill import compute_vectors, next_task, store_vectors
from memrelay.memory.search.embedding.embedder import Embedder, EmbeddingOptions, Model
from memrelay.memory.search.embedding.loading import LazyEmbedder
from memrelay.memory.search.embedding.questions import QuestionEmbedder
from memrelay.memory.search.pool import Pool, SemanticResources
from memrelay.memory.search.query import Rerank
from memrelay.memory.search.search import SearchInput, search

MEMORY_ID = "instances/bench/memories"
BATCH = 256  # writes per transaction as in a worker, and texts per embedding batch
MOST_BYTES = 1 << 30  # limit of an answer, and of vectors in memory


class Product:
    """Memrelay in mode hybrid with default settings, and with vectors if a model is named. Raises
    EmbeddingFault: if the model is missing."""

    def __init__(self, folder: Path, model: Model = "none", rerank: Rerank | None = None) -> None:
        self._rerank = rerank
        lazy = LazyEmbedder(EmbeddingOptions(model=model))
        self._embedder = lazy.get() if lazy.configured else None
        meaning = (
            SemanticResources(QuestionEmbedder(lazy), Pool(MOST_BYTES)) if self._embedder else None
        )
        self.store = Store(MEMORY_ID, store_path(folder, MEMORY_ID), meaning=meaning)
        self.ids: dict[str, str] = {}  # guid -> the document's id

    def ingest(self, documents: Sequence[Document]) -> None:
        """Write the documents. A turn is a record with a thread and the time of the turn."""
        for first in range(0, len(documents), BATCH):
            with self.store.transaction() as tx:
                for number, document in enumerate(documents[first : first + BATCH], start=first):
                    self.ids[write(tx, _make_record(number, document))] = document.id
        if self._embedder is not None:
            embed_all(self.store, self._embedder)
        self.store.begin()  # a worker's batch runs many searches in one transaction

    def search(self, question: str, limit: int) -> list[str]:
        """Return the document ids of records.search."""
        wanted = SearchInput(question, MOST_BYTES, mode="hybrid", limit=limit, rerank=self._rerank)
        return [self.ids[record.guid] for record in search(self.store, wanted)]

    def close(self) -> None:
        """Close the store."""
        self.store.rollback()
        self.store.close()


def _make_record(number: int, document: Document) -> WriteInput:
    guid = derive_guid("bench", f"{document.at_ms}-{number}", "recall", 0)
    return WriteInput(
        guid,
        MEMORY_ID,
        DEFAULT_KIND,
        document.text,
        document.source,
        (),
        document.at_ms,
        document.thread,
    )


def embed_all(store: Store, embedder: Embedder) -> None:
    """Make all vectors, as the worker does in the background."""
    while task := next_task(store, embedder, wanted=True, most=BATCH):
        if task.one is not None:
            store_vectors(store, task.one, compute_vectors(embedder, task.texts))
