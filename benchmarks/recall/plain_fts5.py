"""A reference system: SQLite FTS5 with stems, without stop words, matching any word."""

from collections.abc import Sequence
from pathlib import Path

import apsw

from benchmarks.recall.collection import Document
from memrelay.memory.search.text.stopwords import STOP_WORDS
from memrelay.memory.search.text.words import tokens

TABLE = (
    "CREATE VIRTUAL TABLE documents USING fts5(id UNINDEXED, text, tokenize = 'porter unicode61')"
)
SEARCH = "SELECT id FROM documents WHERE documents MATCH ? ORDER BY rank LIMIT ?"


class PlainFts5:
    """One FTS5 table in a file."""

    def __init__(self, folder: Path) -> None:
        self._connection = apsw.Connection(str(folder / "fts5.db"))
        self._connection.execute(TABLE)

    def ingest(self, documents: Sequence[Document]) -> None:
        """Insert all documents in one transaction."""
        with self._connection:
            self._connection.executemany(
                "INSERT INTO documents VALUES (?, ?)", [(one.id, one.text) for one in documents]
            )

    def search(self, question: str, limit: int) -> list[str]:
        """Return document ids by FTS5's BM25 (k1 = 1.2, b = 0.75). A query of stop words finds
        nothing."""
        words = dict.fromkeys(
            word for word in tokens(question) if word not in STOP_WORDS["english"]
        )
        if not words:
            return []
        return [
            id_
            for (id_,) in self._connection.execute(
                SEARCH, (" OR ".join(f'"{word}"' for word in words), limit)
            )
        ]

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
