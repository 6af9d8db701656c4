"""The layout of a store in memory: the row, thread, length and speaker of every record.

The columns are parallel arrays, sorted by thread, then `seq`, then row. A record's index in them
is its place. A record without a thread forms its own thread. A record takes 32 bytes, and up to
12 more once a search was made.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import repeat
from operator import itemgetter
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from memrelay.memory.engine.row_arrays import Rows
from memrelay.memory.engine.row_metadata import RowMetadata
from memrelay.memory.search.text.words import plain_tokens

Places = NDArray[np.int64]
# Speakers whose names begin with the same word, and first words that are compared with a name in
# short. Later ones cannot be named in a query.
MAX_ALIKE = 1000
SHORTEST_NAME = 3  # letters of such a beginning
# A table from row to place is kept up to this many rows for each record.
MAX_SPAN = 8


@dataclass(slots=True)
class Names:
    """Numbers of threads and speakers. All layouts of a store share them; none is ever reused."""

    threads: dict[str, int] = field(default_factory=dict)
    sources: dict[str, int] = field(default_factory=dict)
    # first word of a name -> (number, all words of the name)
    by_first_word: dict[str, list[tuple[int, frozenset[str]]]] = field(default_factory=dict)
    next_thread: int = 0

    def thread(self, name: str) -> int:
        """Return the number of a thread, assigned on first use."""
        if name not in self.threads:
            self.threads[name] = self.reserve_threads(1).start
        return self.threads[name]

    def source(self, name: str) -> int:
        """Return the number of a speaker, assigned on first use."""
        if name not in self.sources:
            self.sources[name] = len(self.sources)
            words = plain_tokens(name)
            alike = self.by_first_word.setdefault(words[0], []) if words else []
            if len(alike) < MAX_ALIKE:
                alike.append((self.sources[name], frozenset(words)))
        return self.sources[name]

    def find_speakers(self, words: set[str]) -> list[int]:
        """Return the speakers whose whole names occur in the words, even without any turn left."""
        return [
            number
            for word in words
            for number, name in self.by_first_word.get(word, ())
            if name <= words
        ]

    def find_short_names(self, words: Iterable[str]) -> dict[str, int]:
        """Return the speaker that each word names in short, if it can mean no other.

        That is the first word of a longer name, or the beginning of a first word: `Priya` and `Pri`
        for `Priya Nair`.
        """
        found = {word: self._begun_by(word) for word in words}
        return {word: alike[0][0] for word, alike in found.items() if len(alike) == 1}

    def _begun_by(self, word: str) -> list[tuple[int, frozenset[str]]]:
        alike = self.by_first_word.get(word, [])
        if alike or len(word) < SHORTEST_NAME or len(self.by_first_word) > MAX_ALIKE:
            return alike
        return [
            one
            for first, some in self.by_first_word.items()
            if first.startswith(word)
            for one in some
        ]

    def first_words(self, words: Iterable[str]) -> set[str]:
        """Return the words that begin the name of a speaker."""
        return {word for word in words if word in self.by_first_word}

    def words_in_names(self, named: Collection[int]) -> set[str]:
        """Return the words in the names of these speakers."""
        alike = self.by_first_word.values() if named else ()
        return {word for some in alike for number, name in some if number in named for word in name}

    def reserve_threads(self, count: int) -> range:
        """Reserve numbers for records without a thread."""
        self.next_thread += count
        return range(self.next_thread - count, self.next_thread)


class Entries(NamedTuple):
    """Columns of records, by place."""

    thread: NDArray[np.int32]
    seq: NDArray[np.int64]
    row: Rows
    length: NDArray[np.int32]  # in words
    tokens: NDArray[np.int32]  # in FTS5 tokens
    source: NDArray[np.int32]  # the speaker's number; -1 for a record without a thread

    def map_columns(self, change: Callable[[Any], Any]) -> "Entries":
        """Apply the same change to every column."""
        return Entries(*map(change, self))


class Layout:
    """An immutable state of a store, from sorted entries. A change creates another layout."""

    def __init__(self, names: Names, entries: Entries) -> None:
        self.names = names
        self.thread, self.seq, self.row, self.length, self.tokens, self.source = entries
        self._entries = entries

    @classmethod
    def empty(cls) -> Self:
        """Return the layout of a store without records."""
        return cls(Names(), _entries([], [], [], [], [], []))

    def __len__(self) -> int:
        return len(self.row)

    def updated(self, gone: Rows, metadata: RowMetadata) -> Self:
        """Return a layout without the `gone` rows and with the records of the metadata inserted."""
        old = self._entries
        if len(gone):
            places = self.places(gone)
            old = old.map_columns(lambda column: np.delete(column, places))
        new = _sorted(_number_records(metadata, self.names))
        at = _insert_positions(old, new)
        return type(self)(self.names, Entries(*map(np.insert, old, repeat(at), new)))  # type: ignore[arg-type]

    def part(self, places: Places) -> Self:
        """Return a layout of these places, ascending, whose rows are numbered from 0."""
        entries = self._entries.map_columns(itemgetter(places))
        return type(self)(self.names, entries._replace(row=np.arange(len(places))))

    def places(self, rows: Rows) -> Places:
        """Return the places of rows, leaving out rows that are absent."""
        by_row, first = self._by_row
        if by_row is not None:
            inside = rows[(rows >= first) & (rows < first + len(by_row))]
            at = by_row[inside - first].astype(np.int64)
            return at[at >= 0]
        ordered, order = self._sorted_rows
        at = np.minimum(np.searchsorted(ordered, rows), len(ordered) - 1)
        found: Places = order[at[ordered[at] == rows]]
        return found

    @cached_property
    def threaded(self) -> bool:
        """Whether any record has a thread."""
        return bool((self.source >= 0).any())

    def find_speakers(self, words: set[str], short: Collection[int] = ()) -> list[int]:
        """Return the speakers whose whole names occur in the words, and those named in short.

        Returns none if the store has only one speaker: that is usually a bridge's name.
        """
        found = dict.fromkeys([*self.names.find_speakers(words), *short])
        return (
            [number for number in found if number in self._speakers]
            if found and len(self._speakers) > 1
            else []
        )

    @property
    def nbytes(self) -> int:
        """The approximate size in memory."""
        return 44 * len(self) + 100 * (len(self.names.threads) + len(self.names.sources))

    @cached_property
    def _speakers(self) -> NDArray[np.intp]:
        """The numbers of the speakers that have turns."""
        return np.flatnonzero(np.bincount(self.source + 1)[1:])

    @cached_property
    def _by_row(self) -> tuple[NDArray[np.int32] | None, int]:
        """(table from row to place, the first row); None if the rows are too sparse."""
        if not len(self):
            return np.zeros(0, np.int32), 0
        first, last = int(self.row.min()), int(self.row.max())
        if last - first >= MAX_SPAN * len(self):
            return None, 0
        table = np.full(last - first + 1, -1, np.int32)
        table[self.row - first] = np.arange(len(self), dtype=np.int32)
        return table, first

    @cached_property
    def _sorted_rows(self) -> tuple[Rows, Places]:
        order = np.argsort(self.row)
        return self.row[order], order


def _entries(*columns: object) -> Entries:
    kinds = np.int32, np.int64, np.int64, np.int32, np.int32, np.int32
    return Entries(*map(np.asarray, columns, kinds))


def _number_records(metadata: RowMetadata, names: Names) -> Entries:
    """Return the records of the metadata with thread and speaker numbers, in its order."""
    count = len(metadata.rows)
    thread, seq, source = (
        np.full(count, -1, np.int32),
        np.zeros(count, np.int64),
        np.full(count, -1, np.int32),
    )
    for turns in metadata.threads:
        at = np.searchsorted(metadata.rows, np.asarray(turns.rows, np.int64))
        thread[at], seq[at] = names.thread(turns.thread), turns.seqs
        source[at] = [names.source(name) for name in turns.sources]
    alone = thread < 0
    thread[alone] = names.reserve_threads(int(alone.sum()))
    return _entries(thread, seq, metadata.rows, metadata.lengths, metadata.tokens, source)


def _sorted(entries: Entries) -> Entries:
    order = np.lexsort((entries.row, entries.seq, entries.thread))
    return entries.map_columns(lambda column: column[order])


def _insert_positions(old: Entries, new: Entries) -> Places:
    """Return the insert position of each new entry; both are sorted."""
    at = np.searchsorted(old.thread, new.thread, side="left")
    end = np.searchsorted(old.thread, new.thread, side="right")
    known = np.flatnonzero(at < end)  # in threads that already have turns
    for number in np.unique(new.thread[known]):
        ours = np.arange(*np.searchsorted(new.thread, (number, number + 1)))
        within = slice(at[ours[0]], end[ours[0]])
        at[ours] += _turns_before(
            old.map_columns(itemgetter(within)), new.map_columns(itemgetter(ours))
        )
    return at


def _turns_before(old: Entries, new: Entries) -> Places:
    """Return how many turns of a thread precede each new one, by `seq`, then by row."""
    first = np.searchsorted(old.seq, new.seq, side="left")
    end = np.searchsorted(old.seq, new.seq, side="right")
    ranks = first.copy()
    for i in np.flatnonzero(first < end):
        ranks[i] += np.searchsorted(old.row[first[i] : end[i]], new.row[i])
    return ranks
