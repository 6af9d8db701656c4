"""Rows in bulk: fast inserts, and sets of changed rows."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import apsw

TOGETHER = 32


class RowInsert:
    """Inserts rows of one shape, several per statement. On an error, the caller rolls back.

    Running a statement costs as much as one more row in it. Each row has values for `columns`,
    preceded by the ascending row number if there is a `key`.

    A statement that can be undone alone keeps a copy of nearly every page that it changes. SQLite
    skips it if a failing row leaves the rows before it (OR FAIL), and if SQLite assigns the row
    numbers itself.
    """

    def __init__(self, table: str, columns: str, key: str = "") -> None:
        with_key, row = f"{key}, {columns}" if key else columns, _placeholders(columns)
        self._one = f"INSERT INTO {table}({with_key}) VALUES {_placeholders(with_key)}"
        rows = ", ".join([row] * TOGETHER)
        self._several = f"INSERT OR FAIL INTO {table}({columns}) VALUES {rows}"
        self._last = f"SELECT coalesce(max({key}), 0) FROM {table}" if key else ""

    def run(self, connection: apsw.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert the rows in their order."""
        bulk = len(rows) - len(rows) % TOGETHER
        if bulk and self._last and not _are_consecutive(rows, connection.execute(self._last).get):
            bulk = 0
        for at in range(0, bulk, TOGETHER):
            values = list(chain.from_iterable(rows[at : at + TOGETHER]))
            if self._last:
                # SQLite assigns the same numbers.
                del values[:: len(rows[0])]
            connection.execute(self._several, values)
        connection.executemany(self._one, rows[bulk:])


def _placeholders(columns: str) -> str:
    return f"({', '.join('?' * len(columns.split(',')))})"


def _are_consecutive(rows: Sequence[tuple[Any, ...]], last: int) -> bool:
    """Return whether the row numbers follow `last` without a gap."""
    return bool(rows[0][0] == last + 1 and rows[-1][0] == last + len(rows))


# Changes to the records since a reader last looked, which bring its caches up to date.

# Rows above which the reader reads everything again.
MAX_CHANGED = 10_000


class Changes:
    """Rows whose record was edited or deleted. New rows are not included: they are higher than all
    before.

    `also` receives the same changes.
    """

    def __init__(self, also: "Changes | None" = None) -> None:
        self.also = also
        self.rows: set[int] = set()
        # True: too many changes to list.
        self.everything = False
        # Whether some changes are in the open transaction.
        self.uncommitted = False

    def __bool__(self) -> bool:
        return self.everything or bool(self.rows)

    def add(self, row: int) -> None:
        """Record that a row was edited or deleted."""
        self.uncommitted = True
        self.rows.add(row)
        if self.also is not None:
            self.also.add(row)
        if len(self.rows) > MAX_CHANGED:
            self._mark_everything()

    def add_some(self, rows: Iterable[int]) -> None:
        """Record several rows."""
        for row in rows:
            self.add(row)

    def add_all(self) -> None:
        """Record that every row may have changed."""
        self._mark_everything()
        if self.also is not None:
            self.also.add_all()

    def _mark_everything(self) -> None:
        self.rows.clear()
        self.uncommitted = self.everything = True

    def clear(self) -> None:
        """Forget the changes after the reader processed them."""
        self.rows.clear()
        self.everything = False
