"""The words of a store: their number of records, posting lists and common prefixes, read from the
full-text indexes.

No other data is stored for it: fts5vocab counts a word's records at 30 ns each. Parts of words
(search/text/words.py) are words too. If a record has a word in its content, the same word in its
parts does not count.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import apsw
import numpy as np
import orjson

from memrelay.memory.engine.fulltext import INDEXES
from memrelay.memory.engine.postings import (
    COUNT_FUNCTION,
    PostingLists,
    Postings,
    count_matches,
    merge_postings,
)
from memrelay.memory.engine.row_arrays import Rows, numbers

TABLES = """
CREATE VIRTUAL TABLE IF NOT EXISTS temp.word_counts USING fts5vocab('main', 'records_fts', 'row');
CREATE VIRTUAL TABLE IF NOT EXISTS temp.word_places
  USING fts5vocab('main', 'records_fts', 'instance');
CREATE VIRTUAL TABLE IF NOT EXISTS temp.part_counts USING fts5vocab('main', 'parts_fts', 'row');
CREATE VIRTUAL TABLE IF NOT EXISTS temp.part_columns USING fts5vocab('main', 'parts_fts', 'col');
CREATE VIRTUAL TABLE IF NOT EXISTS temp.part_places
  USING fts5vocab('main', 'parts_fts', 'instance');
"""
SELECT_PREFIX = "SELECT term, doc FROM temp.word_counts WHERE term >= ?1 AND term < ?2 LIMIT ?3"
SELECT_ALL_PREFIX = (
    SELECT_PREFIX,
    SELECT_PREFIX.replace("word_counts", "part_counts"),
    SELECT_PREFIX.replace("word_counts", "part_columns").replace(
        " LIMIT", " AND col = 'content' LIMIT"
    ),
)
SELECT_COUNTS = (
    "SELECT term, doc FROM json_each(?1) CROSS JOIN temp.word_counts ON term = json_each.value"
)
SELECT_ALL_COUNTS = (
    SELECT_COUNTS,
    SELECT_COUNTS.replace("word_counts", "part_counts"),
    SELECT_COUNTS.replace("word_counts", "part_columns") + " AND col = 'content'",
)
# An FTS5 function: the number of records and of tokens.
TOTALS_FUNCTION = "memrelay_totals"
SELECT_TOTALS = (
    f"SELECT {TOTALS_FUNCTION}(records_fts) FROM records_fts WHERE records_fts MATCH ? LIMIT 1"
)
PLACES = "SELECT group_concat(doc) FROM temp.word_places WHERE term = ?"
PARTS_PLACES = "SELECT group_concat(doc) FROM temp.part_places WHERE term = ? AND col = 'parts'"
IN_CONTENT = (
    "SELECT guid FROM records WHERE guid IN (SELECT value FROM json_each(?)) "
    "AND row IN (SELECT rowid FROM records_fts WHERE records_fts MATCH ?)"
)
PREFIX_PLACES = (
    "SELECT group_concat(doc) FROM "
    "(SELECT doc FROM temp.word_places WHERE term >= ?1 AND term < ?2 LIMIT ?3)"
)
PARTS_PREFIX_PLACES = PREFIX_PLACES.replace("word_places", "part_places").replace(
    " LIMIT", " AND col = 'parts' LIMIT"
)
# Maximum number of cached counts, and the memory of each, approximately.
MAX_CACHED, BYTES_PER_COUNT = 20_000, 120
# The highest code point, which no word contains.
LAST_CHARACTER = "\U0010ffff"


class Vocabulary:
    """The words of one store, read inside its open transaction. The indexes must be in sync."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._prefix_counts: dict[str, dict[str, int]] = {}
        self._counts: dict[str, int] = {}
        self._cached_counts = 0
        connection.register_fts5_function(COUNT_FUNCTION, count_matches)
        connection.register_fts5_function(TOTALS_FUNCTION, _totals)
        self._contents = PostingLists(connection, "records_fts", PLACES)
        self._parts = PostingLists(connection, "parts_fts", PARTS_PLACES, "parts")

    def open(self) -> None:
        """Create the temporary tables, which a rollback removes. Call it first in
        each transaction.
        """
        self._connection.execute(TABLES)
        if self._cached_counts > MAX_CACHED:
            self._drop_counts()

    def change(self, known: int, changed: Sequence[int], last_row: int) -> None:
        """Update the caches: rows were added after `known` up to `last_row`, and `changed` were
        edited or deleted.
        """
        self._drop_counts()
        self._contents.change(known, changed, last_row)
        self._parts.change(known, changed, last_row)

    def drop(self) -> None:
        """Free the caches."""
        self._drop_counts()
        self._contents.drop()
        self._parts.drop()

    def _drop_counts(self) -> None:
        self._prefix_counts.clear()
        self._counts.clear()
        self._cached_counts = 0

    @property
    def nbytes(self) -> int:
        """Return the memory used by the caches, bytes."""
        counts = BYTES_PER_COUNT * self._cached_counts
        return self._contents.nbytes + self._parts.nbytes + counts

    def beginning(self, prefix: str, most: int) -> dict[str, int]:
        """Return the first `most` words with that prefix, in alphabetical order, with their number
        of records.
        """
        if prefix not in self._prefix_counts:
            self._prefix_counts[prefix] = self._query_counts(
                SELECT_ALL_PREFIX, (prefix, prefix + LAST_CHARACTER, most)
            )
            self._cached_counts += 1 + len(self._prefix_counts[prefix])
        return self._prefix_counts[prefix]

    def among(self, words: Iterable[str]) -> dict[str, int]:
        """Return the given words that the store has, with their number of records. It costs 10 us
        per word.
        """
        return self._query_counts(SELECT_ALL_COUNTS, (orjson.dumps(list(words)).decode(),))

    def _query_counts(self, sqls: tuple[str, str, str], values: tuple[Any, ...]) -> dict[str, int]:
        """Return the number of records per word. A record with the word in content and parts counts
        once.
        """
        contents, with_parts, their_contents = sqls
        found = dict(self._connection.execute(contents, values))
        if more := dict(self._connection.execute(with_parts, values)):
            there = dict(self._connection.execute(their_contents, values))
            new = {word: count - there.get(word, 0) for word, count in more.items()}
            found |= {word: found.get(word, 0) + count for word, count in new.items() if count}
        return found

    def count(self, word: str) -> int:
        """Return the number of records that hold the word."""
        if word not in self._counts:
            self._counts[word] = self.among((word,)).get(word, 0)
            self._cached_counts += 1
        return self._counts[word]

    def postings(self, word: str) -> Postings:
        """Return the records that hold the word."""
        return merge_postings(self._contents.of(word), self._parts.of(word))

    def contents(self, word: str) -> Postings:
        """Return the records that hold the word in their content."""
        return self._contents.of(word)

    def totals(self, word: str) -> tuple[int, int]:
        """Return (number of records, number of tokens) of the index of contents.

        `word` must be in a record, because the query needs a match.
        """
        records, length = self._connection.execute(SELECT_TOTALS, (f'"{word}"',)).get.split()
        return int(records), int(length)

    def begun(self, prefix: str, most: int) -> tuple[Rows, bool]:
        """Return (ascending rows with a word of that prefix, whether the list is complete).

        It reads the first `most` places of such words in alphabetical order.
        """
        found = [
            numbers(self._connection.execute(sql, (prefix, prefix + LAST_CHARACTER, most)).get)
            for sql in (PREFIX_PLACES, PARTS_PREFIX_PLACES)
        ]
        return np.unique(np.concatenate(found)), max(map(len, found)) < most

    def in_content(self, expression: str, guids: Sequence[str]) -> set[str]:
        """Return the guids of records that match an FTS5 expression by their content, not only by
        parts.
        """
        return {
            guid
            for (guid,) in self._connection.execute(
                IN_CONTENT, (orjson.dumps(guids).decode(), expression)
            )
        }

    def matching(self, expression: str) -> Rows:
        """Return the ascending rows that match an FTS5 expression."""
        found = [
            numbers(
                self._connection.execute(
                    f"SELECT group_concat(rowid) FROM {index} WHERE {index} MATCH ?", (expression,)
                ).get
            )
            for index in INDEXES
        ]
        both = np.sort(np.concatenate(found), kind="stable") if len(found[1]) else found[0]
        return both[np.flatnonzero(np.diff(both, prepend=-1))]


def _totals(index: apsw.FTS5ExtensionApi, *_: object) -> str:
    return f"{index.row_count} {index.column_total_size(-1)}"
