"""A reference system: documents ranked by the cosine of a built-in embedder."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.recall.collection import Document
from memrelay.memory.engine.vectors import embedded_text
from memrelay.memory.search.embedding.embedder import EmbeddingOptions, Model
from memrelay.memory.search.embedding.loading import load


class EmbedderAlone:
    """A matrix in memory of the texts that Memrelay embeds too. Raises EmbeddingFault: if the model
    is missing."""

    def __init__(self, folder: Path, model: Model = "local") -> None:
        self._embedder = load(EmbeddingOptions(model=model))
        self._matrix = np.empty((0, self._embedder.fingerprint.dimension), np.float32)
        self._ids: list[str] = []

    def ingest(self, documents: Sequence[Document]) -> None:
        """Embed all documents."""
        self._ids = [one.id for one in documents]
        self._matrix = self._embedder.embed(
            [embedded_text(bool(one.thread), one.source, one.text) for one in documents]
        )

    def search(self, question: str, limit: int) -> list[str]:
        """Return document ids by cosine."""
        cosines = self._matrix @ self._embedder.embed([question])[0]
        return [self._ids[place] for place in np.argsort(-cosines, kind="stable")[:limit]]

    def close(self) -> None:
        """Do nothing: the system holds no files."""
