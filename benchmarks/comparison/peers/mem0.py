"""mem0 in raw mode (`infer=False`), with its default Qdrant in a folder.

Its keyword signal needs fastembed's BM25, and its entity signal a model of spaCy. Both are
downloaded at the first use, so they are off without a network.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mem0 import Memory

from benchmarks.comparison.peer import DIMENSION, as_text
from benchmarks.recall.collection import Document

USER = "ada"


class Mem0:
    """The memories of one user."""

    def __init__(self, folder: Path, embedder: str) -> None:
        server = {"model": "minilm", "api_key": "none", "openai_base_url": embedder}
        store = {"path": str(folder / "qdrant"), "on_disk": True}
        self._memory = Memory.from_config(
            {
                "vector_store": {
                    "provider": "qdrant",
                    "config": store | {"embedding_model_dims": DIMENSION},
                },
                "embedder": {"provider": "openai", "config": server},
                "llm": {"provider": "openai", "config": server},  # never asked
                "history_db_path": str(folder / "history.db"),
            }
        )
        self._ids: dict[str, str] = {}  # of a memory -> of its document

    def add(self, document: Document) -> None:
        """Add one message."""
        self.add_batch([document])

    def add_batch(self, documents: Sequence[Document]) -> None:
        """Add all messages by one call."""
        messages = [{"role": "user", "content": as_text(one).text} for one in documents]
        added: dict[str, Any] = self._memory.add(messages, user_id=USER, infer=False)
        for document, memory in zip(documents, added["results"], strict=True):
            self._ids[memory["id"]] = document.id

    def finish(self) -> None:
        """Do nothing: memories are found at once."""

    def search(self, question: str, limit: int, mode: str) -> list[str]:
        """Return ids by the default ranking."""
        found = self._memory.search(question, filters={"user_id": USER}, top_k=limit)
        return [self._ids[memory["id"]] for memory in found["results"]]

    def close(self) -> None:
        """Do nothing: the process ends."""


def open_peer(folder: Path, embedder: str) -> Mem0:
    """Return an empty memory."""
    return Mem0(folder, embedder)
