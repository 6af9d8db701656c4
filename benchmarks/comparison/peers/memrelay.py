"""Memrelay's embedded store by its public API: turns for conversations, else records."""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from benchmarks.recall.collection import Document
from memrelay import open_store

AT_ONCE = 1000  # messages per call of turns.add


class Memrelay:
    """A store file. Vectors are made after the writes, as in a worker."""

    def __init__(self, folder: Path, model: Literal["local", "none"]) -> None:
        self._store = open_store(folder / "memory.db", embedder=model)
        self._has_vectors = model == "local"

    def add(self, document: Document) -> None:
        """Write one record."""
        self._store.records.create(document.text, source=document.source, key=document.id)

    def add_batch(self, documents: Sequence[Document]) -> None:
        """Write turns in one transaction per thread, and other documents one by one."""
        for thread, group in groupby(documents, key=lambda one: one.thread):
            if not thread:
                for document in group:
                    self.add(document)
                continue
            messages = [_make_message(document) for document in group]
            for first in range(0, len(messages), AT_ONCE):
                self._store.turns.add(messages[first : first + AT_ONCE], thread=thread)

    def finish(self) -> None:
        """Make all vectors."""
        if self._has_vectors:
            self._store.records.embed()

    def search(self, question: str, limit: int, mode: str) -> list[str]:
        """Return the keys of the records that match some of the words or the meaning."""
        hits = self._store.records.search(question, limit=limit, mode="hybrid", wait=True)
        return [str(hit.record.key) for hit in hits.items]

    def close(self) -> None:
        """Close the file."""
        self._store.close()


def _make_message(document: Document) -> dict[str, Any]:
    at = datetime.fromtimestamp(document.at_ms / 1000, UTC).isoformat()
    return {"id": document.id, "name": document.source, "content": document.text, "at": at}


def open_peer(folder: Path, embedder: str) -> Memrelay:
    """Return an empty store, with vectors if an embedder is named."""
    return Memrelay(folder, "local" if embedder else "none")
