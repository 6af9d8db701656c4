"""What is compared with what."""

from collections.abc import Sequence
from typing import Protocol

from benchmarks.recall.collection import Document


class System(Protocol):
    """For one corpus; it is made with an empty folder for its files."""

    def ingest(self, documents: Sequence[Document]) -> None:
        """Once, before the first search; all of them can be found when it returns."""

    def search(self, question: str, limit: int) -> list[str]:
        """The ids of at most so many documents, best first."""

    def close(self) -> None:
        """Frees what it holds."""
