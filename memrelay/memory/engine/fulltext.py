"""The full-text indexes of a store. Changes are buffered and written in bulk before a search or the
commit.

FTS5 flushes its buffer before every query, and whenever rows arrive out of rowid order. So
deletions precede insertions, each in ascending order: 8 microseconds per row instead of 20 to 40.

`records_fts` indexes the content of all records. `parts_fts` indexes content and parts of the
records that have parts (memrelay/memory/search/text/words.py).
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import apsw

from memrelay.memory.engine.filter_sql import where
from memrelay.memory.records.columns import READ, column_list
from memrelay.memory.records.record import Record, record_of

INDEXES = ("records_fts", "parts_fts")
CONTENT_COLUMNS = "records_fts(records_fts, rowid, content) "
PARTS_COLUMNS = "parts_fts(parts_fts, rowid, content, parts) "
INSERT_CONTENTS = "INSERT INTO records_fts(rowid, content) SELECT row, content FROM records WHERE "
WRITE_TERMS = "INSERT INTO {index}({index}) VALUES ('flush')"
HAS_PARTS = "SELECT 1 FROM parts_fts_docsize LIMIT 1"
INSERT_PARTS = (
    "INSERT INTO parts_fts(rowid, content, parts) "
    "SELECT row, content, parts FROM records WHERE parts IS NOT NULL AND "
)


class FullTextIndex:
    """Keeps both indexes in sync with `records`. Only RecordTable uses it.

    After every commit the indexes are in sync.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        # By row: the indexed content and parts that are out of date.
        self._outdated: dict[int, tuple[str, str | None]] = {}
        # Rows to index again.
        self._changed: set[int] = set()
        # The highest indexed row.
        self.indexed = 0
        # Whether `parts_fts` has or had rows. If not, a search skips it.
        self.has_parts = False
        # Whether a row that is not indexed may have parts.
        self.has_new_parts = False
        # Whether FTS5 may have terms in memory that it writes before the next query.
        self._has_terms_in_memory = False

    def reset(self, last_row: int) -> None:
        """Mark the indexes as in sync, after a commit or a rollback."""
        self._outdated.clear()
        self._changed.clear()
        self.indexed = last_row
        self.has_new_parts = False
        self.has_parts = self.has_parts or self._connection.execute(HAS_PARTS).get is not None

    def mark_changed(self, row: int, old_content: str, old_parts: str | None) -> None:
        """Record that the content of `row` changed."""
        if row <= self.indexed:
            self._outdated.setdefault(row, (old_content, old_parts))
            self._changed.add(row)
        else:
            self.has_new_parts = True

    def mark_new(self, row: int) -> None:
        """Record that a record was put into the free row `row`."""
        if row <= self.indexed:
            self._changed.add(row)
        self.has_new_parts = True

    def mark_deleted(self, row: int, old_content: str, old_parts: str | None) -> None:
        """Record that `row` was deleted."""
        if row <= self.indexed:
            self._outdated.setdefault(row, (old_content, old_parts))
            self._changed.discard(row)

    def delete_matching(self, which: str, values: list[Any]) -> None:
        """Remove the rows that a WHERE clause on `records AS r` selects, before they are deleted.

        The indexes must be in sync.
        """
        self._connection.execute(
            f"INSERT INTO {CONTENT_COLUMNS} SELECT 'delete', row, content "
            f"FROM records AS r{which} ORDER BY row",
            values,
        )
        if self.has_parts:
            self._connection.execute(
                f"INSERT INTO {PARTS_COLUMNS} SELECT 'delete', row, content, parts "
                f"FROM records AS r{which} AND parts IS NOT NULL ORDER BY row",
                values,
            )

    def catch_up(self, last_row: int) -> None:
        """Bring the indexes in sync with the table up to `last_row`."""
        if last_row == self.indexed and not self._outdated and not self._changed:
            return
        if self._outdated:
            self._delete_outdated()
        if self._changed:
            rows = [(row,) for row in sorted(self._changed)]
            self._connection.executemany(f"{INSERT_CONTENTS} row = ?", rows)
            self._connection.executemany(f"{INSERT_PARTS} row = ?", rows)
        if last_row > self.indexed:
            self._connection.execute(f"{INSERT_CONTENTS} row > ? ORDER BY row", (self.indexed,))
            if self.has_new_parts:
                self._connection.execute(f"{INSERT_PARTS} row > ? ORDER BY row", (self.indexed,))
        self.reset(last_row)
        self._has_terms_in_memory = True

    def write_terms(self) -> None:
        """Let FTS5 write its terms now, before a search whose time is limited."""
        if self._has_terms_in_memory and self._connection.in_transaction:
            for index in INDEXES:
                self._connection.execute(WRITE_TERMS.format(index=index))
        self._has_terms_in_memory = False

    def _delete_outdated(self) -> None:
        outdated = [(row, *self._outdated[row]) for row in sorted(self._outdated)]
        self._connection.executemany(
            f"INSERT INTO {CONTENT_COLUMNS} VALUES ('delete', ?, ?)", [old[:2] for old in outdated]
        )
        self._connection.executemany(
            f"INSERT INTO {PARTS_COLUMNS} VALUES ('delete', ?, ?, ?)",
            [old for old in outdated if old[2] is not None],
        )


# Best matches of one index by FTS5's own relevance (docs/search.md, "The order"). SQLite keeps the
# best while FTS5 ranks. FTS5's own sorting (`ORDER BY rank`) sorts all matches: twice the time for
# a few, four times for a million, and memory for each.

# CROSS makes SQLite match the words once and not once per record.
JOIN_RECORDS = " CROSS JOIN records AS r ON r.row = f.rowid"
BEST_ROWS = (
    "SELECT f.rowid AS row, bm25({index}) AS rank FROM {index} AS f{records}{which} "
    "ORDER BY 2, 1 LIMIT ?"
)
# The join keeps the order of the matches.
SELECT_BEST = (
    f"SELECT r.row, {column_list(READ, 'r.')}, -best.rank "
    f"FROM ({BEST_ROWS}) AS best CROSS JOIN records AS r ON r.row = best.row"
)


def best_matches(
    connection: apsw.Connection,
    index: str,
    match: str,
    conditions: tuple[Sequence[str], Sequence[Any]],
    limit: int,
) -> Iterator[tuple[int, Record]]:
    """Yield (row, record with its score) for matches of an FTS5 expression that meet the
    conditions.

    `conditions` are SQL on `records AS r` and its values.
    """
    clauses, values = conditions
    sql = _select_best(index, *clauses)
    return (
        (found[0], record_of(found[1:]))
        for found in connection.execute(sql, (match, *values, limit))
    )


@lru_cache(64)
def _select_best(index: str, *clauses: str) -> str:
    return SELECT_BEST.format(
        index=index,
        records=JOIN_RECORDS if clauses else "",
        which=where(f"{index} MATCH ?", *clauses),
    )


# Segments: FTS5 writes new rows as a new segment, and a search reads all segments. FTS5 merges few
# while it writes, because a merge delays the writer. So idle time is used, for a few pages at once.

# Number of segments that need no merge.
FEW = 4
# The largest segment is merged once the others have a quarter of its pages. So each page is
# written about five times while an index grows, whatever its size.
SIZE_RATIO = 4
# Pages of 4 kB merged at once. It takes about 3 ms, which may delay a message.
PAGES = 16


class Segments:
    """Merges segments of the full-text indexes inside the store's open transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._merging = ""

    def to_merge(self) -> str:
        """Return the index whose merge is in progress or worthwhile, "" for none."""
        return self._merging or next(filter(self._is_worthwhile, INDEXES), "")

    def merge(self, index: str) -> bool:
        """Merge some pages of an index and return whether anything was merged."""
        # A negative number starts a merge of all segments, a positive one continues it.
        pages = PAGES if self._merging else -PAGES
        before = self._connection.total_changes()
        self._connection.execute(f"INSERT INTO {index}({index}, rank) VALUES ('merge', {pages})")
        # The command itself counts as one change.
        merged = self._connection.total_changes() - before > 1
        self._merging = index if merged else ""
        return merged

    def _is_worthwhile(self, index: str) -> bool:
        sizes = [
            pages
            for (pages,) in self._connection.execute(
                f"SELECT count(*) FROM {index}_idx GROUP BY segid"
            )
        ]
        return len(sizes) > FEW and SIZE_RATIO * (sum(sizes) - max(sizes)) >= max(sizes)
