"""The full-text indexes of a store, written in bulk: what is new, gone or changed waits until a
search or the commit needs it.

FTS5 flushes its buffer whenever it is written out of rowid order, and before every query. So
deletions come before
insertions, each in ascending order, and as seldom as possible: 8 microseconds a row instead of 20
to 40.

`records_fts` has the content of all records, `parts_fts` content and parts of those that have parts
(memory/text/words.py).
"""

from collections.abc import Iterator, Sequence
from typing import Any

import apsw

from memrelay.memory.records.record import Record, record_of
from memrelay.memory.sqlite.filters import where

INDEXES = ("records_fts", "parts_fts")
CONTENTS = "records_fts(records_fts, rowid, content) "
PARTS = "parts_fts(parts_fts, rowid, content, parts) "
NEW_CONTENTS = "INSERT INTO records_fts(rowid, content) SELECT row, content FROM records WHERE "
ANY_PARTS = "SELECT 1 FROM parts_fts_docsize LIMIT 1"
NEW_PARTS = "INSERT INTO parts_fts(rowid, content, parts) SELECT row, content, parts FROM records WHERE parts IS NOT NULL AND "


class FullTextIndex:
    """Keeps both in step with `records`; used by RecordTable alone."""

    def __init__(self, connection: apsw.Connection) -> None:
        """An index that is in step, as it is after every commit."""
        self._connection = connection
        self._outdated: dict[
            int, tuple[str, str | None]
        ] = {}  # row -> the content that is still indexed, and its parts
        self._changed: set[int] = set()  # rows to index again
        self.indexed = 0  # the highest row that the index has
        self.has_parts = (
            False  # whether `parts_fts` has anything, or had: else a search need not look there
        )

    def reset(self, last_row: int) -> None:
        """In step again, after a commit or a rollback."""
        self._outdated.clear()
        self._changed.clear()
        self.indexed = last_row
        self.has_parts = self.has_parts or self._connection.execute(ANY_PARTS).get is not None

    def changed(self, row: int, old_content: str, old_parts: str | None) -> None:
        """The content of `row` is another now."""
        if row <= self.indexed:
            self._outdated.setdefault(row, (old_content, old_parts))
            self._changed.add(row)

    def gone(self, row: int, old_content: str, old_parts: str | None) -> None:
        """`row` was deleted."""
        if row <= self.indexed:
            self._outdated.setdefault(row, (old_content, old_parts))
            self._changed.discard(row)

    def gone_where(self, which: str, values: list[Any]) -> None:
        """All records that a WHERE clause over `records AS r` picks are about to be deleted; the
        index must be in step."""
        self._connection.execute(
            f"INSERT INTO {CONTENTS} SELECT 'delete', row, content FROM records AS r{which} ORDER BY row",
            values,
        )
        self._connection.execute(
            f"INSERT INTO {PARTS} SELECT 'delete', row, content, parts FROM records AS r{which} AND parts IS NOT NULL "
            "ORDER BY row",
            values,
        )

    def catch_up(self, last_row: int) -> None:
        """Brings the index in step with rows up to `last_row`, which must be in the table."""
        if last_row == self.indexed and not self._outdated and not self._changed:
            return
        if self._outdated:
            self._remove()
        if self._changed:
            rows = [(row,) for row in sorted(self._changed)]
            self._connection.executemany(f"{NEW_CONTENTS} row = ?", rows)
            self._connection.executemany(f"{NEW_PARTS} row = ?", rows)
        if last_row > self.indexed:
            self._connection.execute(f"{NEW_CONTENTS} row > ? ORDER BY row", (self.indexed,))
            self._connection.execute(f"{NEW_PARTS} row > ? ORDER BY row", (self.indexed,))
        self.reset(last_row)

    def _remove(self) -> None:
        outdated = [(row, *self._outdated[row]) for row in sorted(self._outdated)]
        self._connection.executemany(
            f"INSERT INTO {CONTENTS} VALUES ('delete', ?, ?)", [old[:2] for old in outdated]
        )
        self._connection.executemany(
            f"INSERT INTO {PARTS} VALUES ('delete', ?, ?, ?)",
            [old for old in outdated if old[2] is not None],
        )


# What one full-text index finds, best first, by FTS5's own relevance (docs/search.md, "The
# order").
#
# SQLite keeps the best while FTS5 ranks. FTS5, asked to sort by itself (`ORDER BY rank`), sorts all
# that it finds: that takes
# twice the time for a few, four times for a million, and memory for each of them.

# CROSS: the words are found once, not once for each record
RECORDS = " CROSS JOIN records AS r ON r.row = f.rowid"
BEST = "SELECT f.rowid AS row, bm25({index}) AS rank FROM {index} AS f{records}{which} ORDER BY 2, 1 LIMIT ?"
FOUND = (
    f"SELECT r.row, {', '.join('r.' + name for name in Record._fields[:-1])}, -best.rank "
    f"FROM ({BEST}) AS best CROSS JOIN records AS r ON r.row = best.row"
)  # one after the other, as they are sorted


def best_matches(
    connection: apsw.Connection,
    index: str,
    match: str,
    conditions: tuple[Sequence[str], Sequence[Any]],
    limit: int,
) -> Iterator[tuple[int, Record]]:
    """(row, record with its score) of what matches an FTS5 expression and meets conditions on
    `records AS r`, with values."""
    clauses, values = conditions
    sql = FOUND.format(
        index=index, records=RECORDS if clauses else "", which=where(f"{index} MATCH ?", *clauses)
    )
    return (
        (row, record_of(found)) for row, *found in connection.execute(sql, (match, *values, limit))
    )


# The segments of the full-text indexes: FTS5 writes what is new as one of its own, and a search
# looks for each word in all.
#
# While it writes it merges few of them, for that holds the writer up. So they are merged when there
# is time, a few pages at once.

FEW = 4  # segments that are left alone
# the largest is merged with the others once these have a quarter of its pages: each page is written
# some
WORTH = 4
#                   five times while an index grows, whatever its size
PAGES = 16  # merged at once, of 4 kB: some 3 ms, for which a message may have to wait


class Segments:
    """Merges inside the store's open transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        """Nothing is under way."""
        self._connection = connection
        self._merging = ""

    def to_merge(self) -> str:
        """The index that is worth it, or that a merge is under way of; "" for none."""
        return self._merging or next(filter(self._is_worth_it, INDEXES), "")

    def merge(self, index: str) -> bool:
        """Merges some pages of an index; whether there was anything to do."""
        pages = (
            PAGES if self._merging else -PAGES
        )  # below zero begins with all segments, above it goes on
        before = self._connection.total_changes()
        self._connection.execute(f"INSERT INTO {index}({index}, rank) VALUES ('merge', {pages})")
        merged = self._connection.total_changes() - before > 1  # the command itself is one change
        self._merging = index if merged else ""
        return merged

    def _is_worth_it(self, index: str) -> bool:
        sizes = [
            pages
            for (pages,) in self._connection.execute(
                f"SELECT count(*) FROM {index}_idx GROUP BY segid"
            )
        ]
        return len(sizes) > FEW and WORTH * (sum(sizes) - max(sizes)) >= max(sizes)
