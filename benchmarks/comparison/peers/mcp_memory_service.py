"""mcp-memory-service: its storage `sqlite_vec`, without the MCP server in front of it.

Two memories with the same text are one there. The check for similar memories is off.
"""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from mcp_memory_service.models.memory import Memory
from mcp_memory_service.storage.sqlite_vec import SqliteVecMemoryStorage
from mcp_memory_service.utils.hashing import generate_content_hash

from benchmarks.comparison.peer import as_text
from benchmarks.recall.collection import Document


class McpMemoryService:
    """One database file."""

    def __init__(self, folder: Path, embedder: str) -> None:
        os.environ["MCP_EXTERNAL_EMBEDDING_URL"] = f"{embedder}/embeddings"
        os.environ["MCP_EXTERNAL_EMBEDDING_MODEL"] = "minilm"
        self._runner = asyncio.Runner()
        self._storage = SqliteVecMemoryStorage(str(folder / "memory.db"))
        self._runner.run(self._storage.initialize())

    def add(self, document: Document) -> None:
        """Store one memory."""
        memory = _make_memory(document)
        _check(self._runner.run(self._storage.store(memory, skip_semantic_dedup=True)))

    def add_batch(self, documents: Sequence[Document]) -> None:
        """Store all memories in one transaction."""
        memories = [_make_memory(one) for one in documents]
        for result in self._runner.run(self._storage.store_batch(memories)):
            _check(result)

    def finish(self) -> None:
        """Do nothing: memories are found at once."""

    def search(self, question: str, limit: int, mode: str) -> list[str]:
        """Return ids by cosine, or by a weighted sum of BM25 and cosine."""
        search = self._storage.retrieve_hybrid if mode == "hybrid" else self._storage.retrieve
        found = self._runner.run(search(question, n_results=limit))
        return [result.memory.metadata["id"] for result in found]

    def close(self) -> None:
        """Close the file."""
        self._runner.run(self._storage.close())
        self._runner.close()


def _make_memory(document: Document) -> Memory:
    one = as_text(document)
    return Memory(
        content=one.text,
        content_hash=generate_content_hash(one.text),
        metadata={"id": one.id},
    )


def _check(result: tuple[bool, str]) -> None:
    stored, message = result
    if not stored and "uplicate" not in message:
        raise RuntimeError(message)


def open_peer(folder: Path, embedder: str) -> McpMemoryService:
    """Return an empty storage."""
    return McpMemoryService(folder, embedder)
