"""The interface of the compared peers, and the texts that they get. It needs no packages.

A peer's module has a function `open_peer(folder, embedder)` that returns a `Peer`.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from benchmarks.recall.collection import Document

DIMENSION = 384  # of the vectors


class Text(NamedTuple):
    """A document as a peer without fields for speakers gets it."""

    id: str
    text: str  # `Ada: I moved to Lisbon` if it is a turn


class Peer(Protocol):
    """An open store in an empty folder."""

    def add(self, document: Document) -> None:
        """Write one document, as durably as the peer does by default."""

    def add_batch(self, documents: Sequence[Document]) -> None:
        """Write documents in the fastest documented way."""

    def finish(self) -> None:
        """Return when all documents can be found in every mode."""

    def search(self, question: str, limit: int, mode: str) -> list[str]:
        """Return the ids of at most `limit` documents, best first."""

    def close(self) -> None:
        """Release all resources."""


class TakesVectors(Protocol):
    """A peer to which the caller can give the vector of a document."""

    def add_with_vector(self, document: Document, vector: Sequence[float]) -> None:
        """Write one document without computing its vector."""


def as_text(document: Document) -> Text:
    """Return the document with its speaker in the text."""
    speaker = f"{document.source}: " if document.source else ""
    return Text(document.id, f"{speaker}{document.text}")
