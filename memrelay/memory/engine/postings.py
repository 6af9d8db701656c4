"""Posting lists: the records that hold a word, and how often. They are read from a full-text index
once and then updated by changes.

fts5vocab lists the places of a word at 0.2 us each: 0.3 s of CPU for the most common word of a
million records. Changes are read by row, some microseconds per record.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import apsw
import numpy as np
import orjson
from numpy.typing import NDArray

from memrelay.memory.engine.row_arrays import Rows, numbers
from memrelay.memory.engine.rows import MAX_CHANGED
from memrelay.memory.search.text.words import tokens

Counts = NDArray[np.float32]
# An FTS5 function: how often a record holds the searched text.
COUNT_FUNCTION = "memrelay_count"
SELECT_COUNTS = (
    f"SELECT rowid, {COUNT_FUNCTION}({{index}}) FROM {{index}} "
    "WHERE {index} MATCH ?1 AND rowid {which}"
)
AFTER_ROW, IN_ROWS = "> ?2", "IN (SELECT value FROM json_each(?2))"
# Above this number of new records, reading all places of a word again is faster.
MAX_NEW = 20_000
BYTES_A_POSTING = 12
# A list with less than one in this many records is sparse: rows are looked up one by one.
SPARSE = 16
# Size limit of the cache. Common words are used most and cost most.
LEAST_BYTES, BYTES_A_RECORD = 1 << 20, 64


class Postings(NamedTuple):
    """The ascending rows of the records that hold a word, and how often each does."""

    rows: Rows
    counts: Counts

    @property
    def nbytes(self) -> int:
        """Return the memory used, bytes."""
        return self.rows.nbytes + self.counts.nbytes

    def counts_at(self, rows: Rows) -> Counts:
        """Return how often each row holds the word, 0 if it does not."""
        if not len(self.rows) or not len(rows):
            return np.zeros(len(rows), np.float32)
        if len(rows) * SPARSE < len(self.rows) or self.rows[-1] > SPARSE * len(self.rows):
            at = np.searchsorted(self.rows, rows)
            found = self.rows.take(at, mode="clip") == rows
            return np.where(found, self.counts.take(at, mode="clip"), np.float32(0))
        table = np.zeros(max(int(self.rows[-1]), int(rows.max())) + 1, np.float32)
        table[self.rows] = self.counts
        return table[rows]

    def without(self, unwanted: Rows) -> "Postings":
        """Return the postings without the given ascending rows."""
        at = np.searchsorted(self.rows, unwanted)
        at = at[self.rows.take(at, mode="clip") == unwanted] if len(self.rows) else at[:0]
        return Postings(np.delete(self.rows, at), np.delete(self.counts, at)) if len(at) else self

    def with_more(self, more: "Postings") -> "Postings":
        """Return both postings together. They have no common row."""
        if not len(more.rows):
            return self
        at = np.searchsorted(self.rows, more.rows)
        return Postings(
            np.insert(self.rows, at, more.rows), np.insert(self.counts, at, more.counts)
        )


class _CachedPostings(NamedTuple):
    """Cached postings of a word."""

    postings: Postings
    # Highest row of the table at that time.
    last_row: int
    # Number of changes that were already known.
    seen: int

    def cut(self, last_row: int) -> "_CachedPostings":
        """Return the postings up to that row."""
        if last_row >= self.last_row:
            return self
        rows, counts = self.postings
        count_matches = int(np.searchsorted(rows, last_row, side="right"))
        return self._replace(
            postings=Postings(rows[:count_matches], counts[:count_matches]), last_row=last_row
        )


class PostingLists:
    """A cache of posting lists of one full-text index, used inside the store's open transaction.

    The least recently used list is dropped first. `places` is a query for all places of a word as
    group_concat text. `column` is the counted column, "" for all.
    """

    def __init__(
        self, connection: apsw.Connection, index: str, places: str, column: str = ""
    ) -> None:
        self._connection, self._index, self._places = connection, index, places
        self._column = f"{column} : " if column else ""
        self._cache: OrderedDict[str, _CachedPostings] = OrderedDict()
        self._changed: list[int] = []
        self._last_row = 0
        # Memory used, bytes.
        self.nbytes = 0

    def change(self, known: int, changed: Sequence[int], last_row: int) -> None:
        """Register changes: rows were added after `known`, and `changed` were edited or deleted.

        `known` is lower than before if rows were rolled back.
        """
        if self._cache:
            self._changed += changed
        if len(self._changed) > MAX_CHANGED:
            self.drop()
        if known < self._last_row:
            for word, cached in self._cache.items():
                self._cache[word] = cached.cut(known)
        self._last_row = last_row

    def drop(self) -> None:
        """Empty the cache."""
        self._cache.clear()
        self._changed.clear()
        self.nbytes = 0

    def of(self, word: str) -> Postings:
        """Return the postings of a word as the index has it."""
        cached = self._cache.pop(word, None)
        if cached is not None:
            self.nbytes -= cached.postings.nbytes
        now = _CachedPostings(self._current(word, cached), self._last_row, len(self._changed))
        self._cache[word] = now
        self.nbytes += now.postings.nbytes
        while self.nbytes > max_cache_bytes(self._last_row):
            _, oldest = self._cache.popitem(last=False)
            self.nbytes -= oldest.postings.nbytes
        return now.postings

    def _current(self, word: str, cached: _CachedPostings | None) -> Postings:
        if (
            cached is None or self._last_row - cached.last_row > MAX_NEW or tokens(word) != [word]
            # Words that FTS5 splits cannot be searched by row.
        ):
            return postings_from_places(self._connection.execute(self._places, (word,)).get)
        found = cached.postings
        changed = sorted({row for row in self._changed[cached.seen :] if row <= cached.last_row})
        if changed:
            now_present = self._count_in_rows(word, IN_ROWS, orjson.dumps(changed).decode())
            found = found.without(np.array(changed, np.int64)).with_more(now_present)
        return (
            found.with_more(self._count_in_rows(word, AFTER_ROW, cached.last_row))
            if self._last_row > cached.last_row
            else found
        )

    def _count_in_rows(self, word: str, which: str, value: str | int) -> Postings:
        sql = SELECT_COUNTS.format(index=self._index, which=which)
        found = dict(self._connection.execute(sql, (f'{self._column}"{word}"', value)))
        rows = np.fromiter(found, np.int64, len(found))
        order = np.argsort(rows)
        return Postings(rows[order], np.fromiter(found.values(), np.float32, len(found))[order])


def max_cache_bytes(rows: int) -> int:
    """Return the size limit of the cache for a store with that many rows, bytes."""
    return max(LEAST_BYTES, BYTES_A_RECORD * rows)


def count_matches(index: apsw.FTS5ExtensionApi, *_: object) -> int:
    """The FTS5 function, registered with the connection."""
    return index.inst_count


def postings_from_places(places: str | None) -> Postings:
    """Return the postings from the places of a word: ascending rows, each repeated
    per occurrence.
    """
    found = numbers(places)
    first = np.flatnonzero(np.diff(found, prepend=-1))
    return Postings(found[first], np.diff(first, append=len(found)).astype(np.float32))


def merge_postings(contents: Postings, parts: Postings) -> Postings:
    """Return the postings of contents, with those of parts for records that hold the word only in
    parts.
    """
    only_in_parts = contents.counts_at(parts.rows) == 0
    return contents.with_more(Postings(parts.rows[only_in_parts], parts.counts[only_in_parts]))
