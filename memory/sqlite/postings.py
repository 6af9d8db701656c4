"""Which records hold a word and how often: read from a full-text index once, and then brought up to
date by what changes.

fts5vocab lists the places of a word at 0.2 us each, 0.3 s of CPU for the commonest word of a
million records; what is new or
changed since is asked of the index by row, some microseconds for each record.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import apsw
import numpy as np
import orjson
from numpy.typing import NDArray

from memrelay.memory.sqlite.rows import MOST as MOST_CHANGED
from memrelay.memory.sqlite.rows import Rows, numbers
from memrelay.memory.text.words import tokens

Counts = NDArray[np.float32]
COUNT = "memrelay_count"  # a function of FTS5's: how often a record holds what is looked for
HELD = (
    f"SELECT rowid, {COUNT}({{index}}) FROM {{index}} WHERE {{index}} MATCH ?1 AND rowid {{which}}"
)
NEW, SOME = "> ?2", "IN (SELECT value FROM json_each(?2))"
MOST_NEW = 20_000  # records, beyond which all places of a word are read again, which is faster
BYTES_A_POSTING = 12
SPARSE = 16  # of so many records one or fewer: each is looked up by itself
LEAST_BYTES, BYTES_A_RECORD = (
    1 << 20,
    64,
)  # of what is kept: those words that many hold are asked for most, and cost most


class Postings(NamedTuple):
    """The records that hold a word, ascending, and how often each does."""

    rows: Rows
    counts: Counts

    @property
    def nbytes(self) -> int:
        """What they take in memory, bytes."""
        return self.rows.nbytes + self.counts.nbytes

    def counts_at(self, rows: Rows) -> Counts:
        """How often each of the rows holds the word; 0 where it does not."""
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
        """Those that are none of the rows, which are ascending."""
        at = np.searchsorted(self.rows, unwanted)
        at = at[self.rows.take(at, mode="clip") == unwanted] if len(self.rows) else at[:0]
        return Postings(np.delete(self.rows, at), np.delete(self.counts, at)) if len(at) else self

    def with_more(self, more: "Postings") -> "Postings":
        """Both; no row is in both."""
        if not len(more.rows):
            return self
        at = np.searchsorted(self.rows, more.rows)
        return Postings(
            np.insert(self.rows, at, more.rows), np.insert(self.counts, at, more.counts)
        )


class _Kept(NamedTuple):
    """Postings as they were once."""

    postings: Postings
    last_row: int  # the highest there was
    seen: int  # of the changes that were told

    def cut(self, last_row: int) -> "_Kept":
        """Up to that row."""
        if last_row >= self.last_row:
            return self
        rows, counts = self.postings
        count = int(np.searchsorted(rows, last_row, side="right"))
        return self._replace(postings=Postings(rows[:count], counts[:count]), last_row=last_row)


class PostingLists:
    """Of one full-text index, inside the store's open transaction. What was asked for longest ago
    goes first."""

    def __init__(
        self, connection: apsw.Connection, index: str, places: str, column: str = ""
    ) -> None:
        """None yet. `places` is a query for all places of a word, as group_concat tells them;
        `column` the one that counts."""
        self._connection, self._index, self._places = connection, index, places
        self._column = f"{column} : " if column else ""
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._changed: list[int] = []
        self._last_row = 0
        self.nbytes = 0  # of what is kept

    def change(self, known: int, changed: Sequence[int], last_row: int) -> None:
        """Rows came after `known`, which is lower than before where some above were undone; these
        were edited or deleted."""
        if self._kept:
            self._changed += changed
        if len(self._changed) > MOST_CHANGED:
            self.drop()
        if known < self._last_row:
            for word, kept in self._kept.items():
                self._kept[word] = kept.cut(known)
        self._last_row = last_row

    def drop(self) -> None:
        """Forgets all."""
        self._kept.clear()
        self._changed.clear()
        self.nbytes = 0

    def of(self, word: str) -> Postings:
        """Of a word as the index has it."""
        kept = self._kept.pop(word, None)
        if kept is not None:
            self.nbytes -= kept.postings.nbytes
        now = _Kept(self._current(word, kept), self._last_row, len(self._changed))
        self._kept[word] = now
        self.nbytes += now.postings.nbytes
        while self.nbytes > room_of(self._last_row):
            _, least = self._kept.popitem(last=False)
            self.nbytes -= least.postings.nbytes
        return now.postings

    def _current(self, word: str, kept: _Kept | None) -> Postings:
        if (
            kept is None or self._last_row - kept.last_row > MOST_NEW or tokens(word) != [word]
        ):  # it cannot be asked by row
            return postings_of(self._connection.execute(self._places, (word,)).get)
        found = kept.postings
        changed = sorted({row for row in self._changed[kept.seen :] if row <= kept.last_row})
        if changed:
            there = self._held(word, SOME, orjson.dumps(changed).decode())
            found = found.without(np.array(changed, np.int64)).with_more(there)
        return (
            found.with_more(self._held(word, NEW, kept.last_row))
            if self._last_row > kept.last_row
            else found
        )

    def _held(self, word: str, which: str, value: str | int) -> Postings:
        sql = HELD.format(index=self._index, which=which)
        found = dict(self._connection.execute(sql, (f'{self._column}"{word}"', value)))
        rows = np.fromiter(found, np.int64, len(found))
        order = np.argsort(rows)
        return Postings(rows[order], np.fromiter(found.values(), np.float32, len(found))[order])


def room_of(rows: int) -> int:
    """How much is kept at most of a store of so many rows, bytes."""
    return max(LEAST_BYTES, BYTES_A_RECORD * rows)


def count(index: apsw.FTS5ExtensionApi, *_: object) -> int:
    """The function, which a connection must know."""
    return index.inst_count


def postings_of(places: str | None) -> Postings:
    """Of the places of a word, a record's as often as it holds it, ascending."""
    found = numbers(places)
    first = np.flatnonzero(np.diff(found, prepend=-1))
    return Postings(found[first], np.diff(first, append=len(found)).astype(np.float32))


def merged(contents: Postings, parts: Postings) -> Postings:
    """Of a record that has a word in its content, its parts say nothing more about it."""
    new = contents.counts_at(parts.rows) == 0
    return contents.with_more(Postings(parts.rows[new], parts.counts[new]))
