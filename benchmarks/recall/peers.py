"""Chroma and LanceDB, by their adapters in benchmarks/comparison/peers."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from benchmarks.comparison.peer import Peer
from benchmarks.recall.collection import Document
from memrelay.memory.engine.vectors import embedded_text


class ComparedPeer:
    """A store of the peer with the texts that Memrelay embeds too, and with MiniLM as embedder.

    Raises ModuleNotFoundError: if its package is missing.
    """

    def __init__(self, folder: Path, module: str, mode: str) -> None:
        adapter = import_module(f"benchmarks.comparison.peers.{module}")
        self._peer: Peer = adapter.open_peer(folder, "")
        self._mode = mode

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
        return self._peer.search(question, limit, self._mode)

    def close(self) -> None:
        """Close the store."""
        self._peer.close()
