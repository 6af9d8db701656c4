"""Chroma and LanceDB, by their adapters in benchmarks/comparison/peers."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from benchmarks.comparison.peer import Peer
from benchmarks.recall.collection import Document
from memrelay.memory.engine.vectors import embedded_text


class ComparedPeer:
    """A store of the peer with the texts that Memrelay embeds too, and with MiniLM as embedder.

    A rank fusion of longer lists has another order. So `first` results are those of a search for so
    many, as a user would ask for them, and the others follow.

    Raises ModuleNotFoundError: if its package is missing.
    """

    def __init__(self, folder: Path, module: str, mode: str, first: int = 0) -> None:
        adapter = import_module(f"benchmarks.comparison.peers.{module}")
        self._peer: Peer = adapter.open_peer(folder, "")
        self._mode, self._first = mode, first

    def ingest(self, documents: Sequence[Document]) -> None:
        """Write all documents in the peer's fastest way."""
        self._peer.add_batch(
            [
                Document(one.id, embedded_text(bool(one.thread), one.source, one.text))
                for one in documents
            ]
        )
        self._peer.finish()

    def search(self, question: str, limit: int) -> list[str]:
        """Return the document ids of the peer's search."""
        found = self._peer.search(question, limit, self._mode)
        if not 0 < self._first < limit:
            return found
        best = self._peer.search(question, self._first, self._mode)
        return list(dict.fromkeys(best + found))[:limit]

    def close(self) -> None:
        """Close the store."""
        self._peer.close()
