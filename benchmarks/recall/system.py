"""The interface of the compared systems."""

from collections.abc import Sequence
from typing import Protocol

from benchmarks.recall.collection import Document


class System(Protocol):
    """A search system for one corpus. It is created with an empty folder for its files."""

    def ingest(self, documents: Sequence[Document]) -> None:
        """Ingest all documents, once and before the first search. They are searchable when this
        returns."""

    def search(self, question: str, limit: int) -> list[str]:
        """Return the ids of at most `limit` documents, best first."""

    def close(self) -> None:
        """Release all resources."""
