"""Chroma with a persistent client. It has vectors only; its keyword search is a filter."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import chromadb
from chromadb.config import Settings

from benchmarks.comparison.embedder import load_embedder
from benchmarks.comparison.peer import as_text
from benchmarks.recall.collection import Document


class MiniLm(chromadb.EmbeddingFunction[Any]):
    """The embedder as a function of Chroma."""

    def __init__(self) -> None:
        self._embedder = load_embedder()

    def __call__(self, input: Any) -> Any:
        """Return one vector per text."""
        return list(self._embedder.embed(input))

    @staticmethod
    def name() -> str:
        """Return the name in the collection's configuration."""
        return "minilm"

    @staticmethod
    def build_from_config(config: dict[str, Any]) -> "MiniLm":
        """Return the function."""
        return MiniLm()

    def get_config(self) -> dict[str, Any]:
        """Return the configuration, which is empty."""
        return {}


class Chroma:
    """One collection."""

    def __init__(self, folder: Path) -> None:
        self._client = chromadb.PersistentClient(
            str(folder), settings=Settings(anonymized_telemetry=False)
        )
        self._documents = self._client.create_collection(
            "documents",
            embedding_function=MiniLm(),
            configuration={"hnsw": {"space": "cosine"}},
        )

    def add(self, document: Document) -> None:
        """Add one document."""
        self.add_batch([document])

    def add_batch(self, documents: Sequence[Document]) -> None:
        """Add documents in batches of the largest allowed size."""
        size = self._client.get_max_batch_size()
        for first in range(0, len(documents), size):
            texts = [as_text(one) for one in documents[first : first + size]]
            self._documents.add(
                ids=[one.id for one in texts], documents=[one.text for one in texts]
            )

    def add_with_vector(self, document: Document, vector: Sequence[float]) -> None:
        """Add one document with its vector."""
        one = as_text(document)
        self._documents.add(ids=[one.id], documents=[one.text], embeddings=[list(vector)])

    def finish(self) -> None:
        """Do nothing: documents are found at once."""

    def search(self, question: str, limit: int, mode: str) -> list[str]:
        """Return ids by cosine."""
        return self._documents.query(query_texts=[question], n_results=limit)["ids"][0]

    def close(self) -> None:
        """Do nothing: the process ends."""


def open_peer(folder: Path, embedder: str) -> Chroma:
    """Return an empty collection."""
    return Chroma(folder)
