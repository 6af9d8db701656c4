"""The table of records: rows to insert wait in memory until something reads the table, and until the commit at the latest."""
from collections.abc import Iterator
from typing import Any

import apsw

from memory.record import Record
from memory.sqlite.checksum import beginning, checksum, content_checksum
from memory.sqlite.fulltext import FullTextIndex
from memory.sqlite.rows import RowInsert

COLUMNS = "guid, scope, kind, content, source, tags, created_at, updated_at"
INSERT = RowInsert(f"records(row, {COLUMNS}, crc)", 10)
SELECT = f"SELECT {COLUMNS}, 0.0 FROM records AS r"
FOUND = f"SELECT {', '.join('r.' + name for name in COLUMNS.split(', '))}, "
MATCHES = " FROM records_fts AS f JOIN records AS r ON r.row = f.rowid"
SEARCH = f"{FOUND}0.0{MATCHES}"
SEARCH_SCORED = f"{FOUND}-f.rank{MATCHES}"   # FTS5 has sorted by the rank, and computes it again to say it: twice the cost
CHANGE = "UPDATE records SET content = ?, updated_at = ?, crc = crc & 0x7FFFFFFF00000000 | ? WHERE row = ?"
ORDER = {"asc": " ORDER BY r.row", "desc": " ORDER BY r.row DESC"}
HAS_TAG = "EXISTS (SELECT 1 FROM json_each(r.tags) WHERE value = ?)"

Filters = dict[str, str]   # column (kind, scope, source) -> the value it must have


class RecordTable:
    """Reads and writes records inside the store's open transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        """A table in its committed state."""
        self._connection = connection
        self._waiting: list[tuple[Any, ...]] = []
        self._index = FullTextIndex(connection)
        self._last_row = 0
        self.reset()

    def reset(self) -> None:
        """Forgets what waited: after a rollback, and at the beginning."""
        self._waiting.clear()
        self._last_row = self._connection.execute("SELECT coalesce(max(row), 0) FROM records").get
        self._index.reset(self._last_row)

    def insert(self, record: tuple[str, str, str, str, str, str, int, int]) -> None:
        """A new record, its values in the order of COLUMNS."""
        self._last_row += 1
        guid, scope, kind, content, source, tags, created_at, updated_at = record
        crc = checksum(beginning(scope, kind, source, tags), guid, content)
        self._waiting.append((self._last_row, guid, scope, kind, content, source, tags, created_at, updated_at, crc))

    def flush(self) -> None:
        """Puts the rows that wait into the table."""
        if self._waiting:
            INSERT.run(self._connection, self._waiting)
            self._waiting.clear()

    def complete(self) -> None:
        """Table and index as the commit wants them."""
        self.flush()
        self._index.catch_up(self._last_row)

    def by_guid(self, guid: str) -> tuple[int, str, str] | None:
        """(row, guid, content) of one record."""
        return self.oldest({"guid": guid})

    def oldest(self, filters: Filters) -> tuple[int, str, str] | None:
        """(row, guid, content) of the first record that has the values of `filters`."""
        self.flush()
        where, values = _where(filters)
        found = self._connection.execute(f"SELECT row, guid, content FROM records AS r{where} ORDER BY row LIMIT 1", values)
        return found.fetchone()

    def replace_content(self, row: int, old: str, new: str, now_ms: int) -> None:
        """Gives a record another content."""
        self._index.changed(row, old)
        self._connection.execute(CHANGE, (new, now_ms, content_checksum(new), row))

    def delete(self, row: int, content: str) -> None:
        """Deletes the record at `row`, whose content is `content`."""
        self._index.gone(row, content)
        self._connection.execute("DELETE FROM records WHERE row = ?", (row,))

    def delete_kind(self, kind: str) -> int:
        """Deletes all records of a kind and returns how many they were."""
        self.complete()
        self._index.gone_kind(kind)
        self._connection.execute("DELETE FROM records WHERE kind = ?", (kind,))
        return self._connection.changes()

    def select(self, filters: Filters, order: str, limit: int | None, offset: int) -> Iterator[Record]:
        """Records with the values of `filters`, oldest first for `order` "asc", newest first for "desc"."""
        self.flush()
        where, values = _where(filters)
        window = " LIMIT ? OFFSET ?" if limit is not None or offset else ""
        if window:
            values += [-1 if limit is None else limit, offset]
        return map(Record._make, self._connection.execute(SELECT + where + ORDER[order] + window, values))

    def search(self, query: str, filters: Filters, tags: tuple[str, ...], limit: int | None,
               *, scored: bool) -> Iterator[Record]:
        """Records that match an FTS5 query, best first, with their score or 0; the limit counts after all filters."""
        self.complete()
        where, values = _where(filters, "WHERE records_fts MATCH ?", [query])
        for tag in tags:
            where += " AND " + HAS_TAG
            values.append(tag)
        window = "" if limit is None else f" LIMIT {limit:d}"
        return map(Record._make, self._connection.execute(
            f"{SEARCH_SCORED if scored else SEARCH}{where} ORDER BY f.rank{window}", values))


def _where(filters: Filters, first: str = "", values: list[Any] | None = None) -> tuple[str, list[Any]]:
    """The WHERE clause and its values; the keys are column names of our own, never a user's."""
    clauses = [first] if first else []
    for name in filters:
        clauses.append(f"{'AND' if clauses else 'WHERE'} r.{name} = ?")
    return " " + " ".join(clauses) if clauses else "", [*(values or []), *filters.values()]
