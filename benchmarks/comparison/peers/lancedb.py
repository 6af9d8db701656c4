"""LanceDB: vectors, and its hybrid search of vectors and its full-text index."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lancedb
import pyarrow as pa
from lancedb.rerankers import RRFReranker

from benchmarks.comparison.embedder import load_embedder
from benchmarks.comparison.peer import DIMENSION, as_text
from benchmarks.recall.collection import Document

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("text", pa.string()),
        pa.field("vector", pa.list_(pa.float32(), DIMENSION)),
    ]
)


class LanceDb:
    """One table in a folder."""

    def __init__(self, folder: Path) -> None:
        self._embedder = load_embedder()
        self._table = lancedb.connect(str(folder)).create_table("documents", schema=SCHEMA)
        self._reranker = RRFReranker()

    def add(self, document: Document) -> None:
        """Add one document."""
        self.add_batch([document])

    def add_batch(self, documents: Sequence[Document]) -> None:
        """Add all documents in one version of the table."""
        texts = [as_text(one) for one in documents]
        rows = self._embedder.embed([one.text for one in texts])
        self._table.add(
            [
                {"id": one.id, "text": one.text, "vector": row}
                for one, row in zip(texts, rows, strict=True)
            ]
        )

    def add_with_vector(self, document: Document, vector: Sequence[float]) -> None:
        """Add one document with its vector."""
        one = as_text(document)
        self._table.add([{"id": one.id, "text": one.text, "vector": vector}])

    def finish(self) -> None:
        """Index the texts and merge the parts of the table."""
        self._table.create_fts_index("text", replace=True)
        self._table.optimize()

    def search(self, question: str, limit: int, mode: str) -> list[str]:
        """Return ids by cosine, or by the reciprocal rank fusion of cosine and BM25."""
        vector = self._embedder.embed([question])[0]
        if mode == "hybrid":
            query: Any = self._table.search(query_type="hybrid").vector(vector).text(question)
            query = query.distance_type("cosine").rerank(self._reranker)
        else:
            query = self._table.search(vector).distance_type("cosine")
        return [row["id"] for row in query.limit(limit).to_list()]

    def close(self) -> None:
        """Do nothing: the process ends."""


def open_peer(folder: Path, embedder: str) -> LanceDb:
    """Return an empty table."""
    return LanceDb(folder)
