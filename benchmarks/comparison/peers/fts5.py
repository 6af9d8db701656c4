"""Plain FTS5 by Python's sqlite3: stems, no stop words, any word may match, every write synced."""

import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from benchmarks.comparison.peer import as_text
from benchmarks.recall.collection import Document
from memrelay.memory.search.text.stopwords import STOP_WORDS

TABLE = (
    "CREATE VIRTUAL TABLE documents USING fts5(id UNINDEXED, text, tokenize = 'porter unicode61')"
)
INSERT = "INSERT INTO documents VALUES (?, ?)"
WORDS = re.compile(r"\w+")
SEARCH = "SELECT id FROM documents WHERE documents MATCH ? ORDER BY rank LIMIT ?"


class Fts5:
    """One table in a file with a write-ahead log."""

    def __init__(self, folder: Path) -> None:
        self._connection = sqlite3.connect(folder / "fts5.db", isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute(TABLE)

    def add(self, document: Document) -> None:
        """Insert one row in one transaction."""
        self._connection.execute(INSERT, as_text(document))

    def add_batch(self, documents: Sequence[Document]) -> None:
        """Insert all rows in one transaction."""
        self._connection.execute("BEGIN")
        self._connection.executemany(INSERT, map(as_text, documents))
        self._connection.execute("COMMIT")

    def finish(self) -> None:
        """Do nothing: rows are found at once."""

    def search(self, question: str, limit: int, mode: str) -> list[str]:
        """Return ids by FTS5's BM25. A question of stop words finds nothing."""
        words = dict.fromkeys(
            word for word in WORDS.findall(question.lower()) if word not in STOP_WORDS["english"]
        )
        if not words:
            return []
        query = " OR ".join(f'"{word}"' for word in words)
        return [id_ for (id_,) in self._connection.execute(SEARCH, (query, limit))]

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def open_peer(folder: Path, embedder: str) -> Fts5:
    """Return an empty table."""
    return Fts5(folder)
