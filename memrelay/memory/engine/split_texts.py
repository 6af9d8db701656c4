"""Texts that are too long for one call: they arrive in pieces, which a temporary table buffers.

A restart of the store's owner discards them.
"""

from memrelay.memory.engine.table import StoreTable

# Maximum characters of a joined text. A SQLite row has at most 10^9 bytes.
MAX_CHARACTERS = 1 << 30
# Texts that arrive in pieces at the same time, one per caller. Older ones are abandoned.
MAX_TEXTS = 8
CREATE = (
    "CREATE TEMPORARY TABLE IF NOT EXISTS import_pieces("
    "of TEXT, at INTEGER, text TEXT NOT NULL, UNIQUE (of, at)) STRICT"
)
INSERT = "INSERT INTO import_pieces VALUES (?, ?, ?)"
LENGTH = "SELECT coalesce(sum(length(text)), 0) FROM import_pieces WHERE of = ?"
JOINED = "SELECT coalesce(group_concat(text, '' ORDER BY at), '') FROM import_pieces WHERE of = ?"
DELETE = "DELETE FROM import_pieces WHERE of = ?"
DELETE_ABANDONED = (
    "DELETE FROM import_pieces WHERE of NOT IN "
    f"(SELECT of FROM import_pieces WHERE at = 0 ORDER BY rowid DESC LIMIT {MAX_TEXTS - 1})"
)


class SplitTexts(StoreTable):
    """The buffered pieces of texts in one store. Callers name the text that a piece belongs to."""

    def keep(self, of: str, at: int, text: str) -> bool:
        """Buffer a piece of the text `of` that starts at that character.

        Returns False if it does not follow the buffered pieces. The first piece replaces them.
        """
        self._connection.execute(CREATE)
        if at == 0:
            self._connection.execute(DELETE, (of,))
            self._connection.execute(DELETE_ABANDONED)
        if self._connection.execute(LENGTH, (of,)).get != at:
            return False
        self._connection.execute(INSERT, (of, at, text))
        return True

    def take(self, of: str) -> str:
        """Return the pieces of a text, joined, and delete them."""
        self._connection.execute(CREATE)
        joined = str(self._connection.execute(JOINED, (of,)).get)
        self._connection.execute(DELETE, (of,))
        return joined
