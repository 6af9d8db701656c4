"""SQLite's full-text search as one would use it by itself: stems, the stop words dropped, any of
the other words wanted."""

from collections.abc import Sequence
from pathlib import Path

import apsw

from benchmarks.recall.collection import Document
from memrelay.memory.text.stopwords import STOP_WORDS
from memrelay.memory.text.words import tokens

TABLE = (
    "CREATE VIRTUAL TABLE documents USING fts5(id UNINDEXED, text, tokenize = 'porter unicode61')"
)
SEARCH = "SELECT id FROM documents WHERE documents MATCH ? ORDER BY rank LIMIT ?"


class PlainFts5:
    """A file of one table."""

    def __init__(self, folder: Path) -> None:
        """The file is made."""
        self._connection = apsw.Connection(str(folder / "fts5.db"))
        self._connection.execute(TABLE)

    def ingest(self, documents: Sequence[Document]) -> None:
        """In one transaction."""
        with self._connection:
            self._connection.executemany(
                "INSERT INTO documents VALUES (?, ?)", [(one.id, one.text) for one in documents]
            )

    def search(self, question: str, limit: int) -> list[str]:
        """By bm25 with SQLite's own k1 = 1.2 and b = 0.75; nothing where there are but stop
        words."""
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
        """The file is closed."""
        self._connection.close()
