"""The words of a store: which records hold one and how often, and which words begin alike. Read
from the full-text indexes.

Nothing else is stored for it: fts5vocab counts a word's records at 30 ns each. Parts of words
(memory/text/words.py) are words too;
of a record that has a word in its content, its parts say nothing more about it.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import apsw
import numpy as np
import orjson

from memrelay.memory.sqlite.fulltext import INDEXES
from memrelay.memory.sqlite.postings import COUNT, PostingLists, Postings, count, merged
from memrelay.memory.sqlite.rows import Rows, numbers

TABLES = """
CREATE VIRTUAL TABLE IF NOT EXISTS temp.word_counts USING fts5vocab('main', 'records_fts', 'row');
CREATE VIRTUAL TABLE IF NOT EXISTS temp.word_places USING fts5vocab('main', 'records_fts', 'instance');
CREATE VIRTUAL TABLE IF NOT EXISTS temp.part_counts USING fts5vocab('main', 'parts_fts', 'row');
CREATE VIRTUAL TABLE IF NOT EXISTS temp.part_columns USING fts5vocab('main', 'parts_fts', 'col');
CREATE VIRTUAL TABLE IF NOT EXISTS temp.part_places USING fts5vocab('main', 'parts_fts', 'instance');
"""
BEGINNING = "SELECT term, doc FROM temp.word_counts WHERE term >= ?1 AND term < ?2 LIMIT ?3"
BEGINNINGS = (
    BEGINNING,
    BEGINNING.replace("word_counts", "part_counts"),
    BEGINNING.replace("word_counts", "part_columns").replace(
        " LIMIT", " AND col = 'content' LIMIT"
    ),
)
AMONG = "SELECT term, doc FROM json_each(?1) CROSS JOIN temp.word_counts ON term = json_each.value"
ALL_AMONG = (
    AMONG,
    AMONG.replace("word_counts", "part_counts"),
    AMONG.replace("word_counts", "part_columns") + " AND col = 'content'",
)
TOTALS = "memrelay_totals"  # a function of FTS5's: how many records it has, and of how many tokens
ASK_TOTALS = f"SELECT {TOTALS}(records_fts) FROM records_fts WHERE records_fts MATCH ? LIMIT 1"
PLACES = "SELECT group_concat(doc) FROM temp.word_places WHERE term = ?"
PARTS_PLACES = "SELECT group_concat(doc) FROM temp.part_places WHERE term = ? AND col = 'parts'"
IN_CONTENT = (
    "SELECT guid FROM records WHERE guid IN (SELECT value FROM json_each(?)) "
    "AND row IN (SELECT rowid FROM records_fts WHERE records_fts MATCH ?)"
)
BEGUN = "SELECT group_concat(doc) FROM (SELECT doc FROM temp.word_places WHERE term >= ?1 AND term < ?2 LIMIT ?3)"
PARTS_BEGUN = BEGUN.replace("word_places", "part_places").replace(
    " LIMIT", " AND col = 'parts' LIMIT"
)
MOST_KEPT = 2000  # answers
LAST = "\U0010ffff"  # no word goes on with it


class Vocabulary:
    """Reads the words of one store inside its open transaction; the index must be in step with the
    records."""

    def __init__(self, connection: apsw.Connection) -> None:
        """`open` comes first in each transaction."""
        self._connection = connection
        self._beginnings: dict[str, dict[str, int]] = {}
        self._counts: dict[str, int] = {}
        connection.register_fts5_function(COUNT, count)
        connection.register_fts5_function(TOTALS, _totals)
        self._contents = PostingLists(connection, "records_fts", PLACES)
        self._parts = PostingLists(connection, "parts_fts", PARTS_PLACES, "parts")

    def open(self) -> None:
        """Sees to the tables through which it reads: they are temporary, and a rollback takes them
        with it."""
        self._connection.execute(TABLES)
        if len(self._beginnings) + len(self._counts) > MOST_KEPT:
            self._forget_counts()

    def change(self, known: int, changed: Sequence[int], last_row: int) -> None:
        """Rows came after `known`, the highest one now is `last_row`, and these were edited or
        deleted: it counts again."""
        self._forget_counts()
        self._contents.change(known, changed, last_row)
        self._parts.change(known, changed, last_row)

    def drop(self) -> None:
        """Gives back what is kept."""
        self._forget_counts()
        self._contents.drop()
        self._parts.drop()

    def _forget_counts(self) -> None:
        self._beginnings.clear()
        self._counts.clear()

    @property
    def nbytes(self) -> int:
        """What is kept takes in memory."""
        return self._contents.nbytes + self._parts.nbytes

    def beginning(self, prefix: str, most: int) -> dict[str, int]:
        """Words that begin like this, each with the number of its records; the first `most` of them
        by the alphabet."""
        if prefix not in self._beginnings:
            self._beginnings[prefix] = self._numbers(BEGINNINGS, (prefix, prefix + LAST, most))
        return self._beginnings[prefix]

    def among(self, words: Iterable[str]) -> dict[str, int]:
        """Those of the words that the store has, each with the number of its records; 10 us for
        each that is asked for."""
        return self._numbers(ALL_AMONG, (orjson.dumps(list(words)).decode(),))

    def _numbers(self, sqls: tuple[str, str, str], values: tuple[Any, ...]) -> dict[str, int]:
        """How many records hold each word that is found: one that has it in its content and in its
        parts counts once."""
        contents, with_parts, their_contents = sqls
        found = dict(self._connection.execute(contents, values))
        if more := dict(self._connection.execute(with_parts, values)):
            there = dict(self._connection.execute(their_contents, values))
            new = {word: count - there.get(word, 0) for word, count in more.items()}
            found |= {word: found.get(word, 0) + count for word, count in new.items() if count}
        return found

    def count(self, word: str) -> int:
        """How many records hold the word."""
        if word not in self._counts:
            self._counts[word] = self.among((word,)).get(word, 0)
        return self._counts[word]

    def postings(self, word: str) -> Postings:
        """The records that hold the word."""
        return merged(self._contents.of(word), self._parts.of(word))

    def contents(self, word: str) -> Postings:
        """The records that hold the word in their content."""
        return self._contents.of(word)

    def totals(self, word: str) -> tuple[int, int]:
        """(how many records the index of contents has, of how many tokens in all); asked of one
        that holds the word."""
        records, length = self._connection.execute(ASK_TOTALS, (f'"{word}"',)).get.split()
        return int(records), int(length)

    def begun(self, prefix: str, most: int) -> tuple[Rows, bool]:
        """(the records that hold a word that begins like this, ascending; whether these are all):
        found at the first `most`
        places of such words, by the alphabet.
        """
        found = [
            numbers(self._connection.execute(sql, (prefix, prefix + LAST, most)).get)
            for sql in (BEGUN, PARTS_BEGUN)
        ]
        return np.unique(np.concatenate(found)), max(map(len, found)) < most

    def in_content(self, expression: str, guids: Sequence[str]) -> set[str]:
        """Those of the records that an FTS5 expression finds by their content, and not by parts of
        words alone."""
        return {
            guid
            for (guid,) in self._connection.execute(
                IN_CONTENT, (orjson.dumps(guids).decode(), expression)
            )
        }

    def matching(self, expression: str) -> Rows:
        """The records that an FTS5 expression finds, ascending."""
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
