"""Many rows for a table: several to a statement, since to run a statement costs as much as one more
row in it."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import apsw

TOGETHER = 32


class RowInsert:
    """Inserts rows of one shape. Whoever gets an error undoes the transaction.

    A statement of several keeps a journal of its own, by which it can be undone alone: a copy of
    nearly every page that it
    changes. SQLite goes without where a row that fails leaves those before it (OR FAIL), and where
    it numbers the rows itself.
    """

    def __init__(self, table: str, columns: str, key: str = "") -> None:
        """The rows have values for the columns; before these, where there is a `key`, the number of
        the row, ascending."""
        whole, row = f"{key}, {columns}" if key else columns, _row(columns)
        self._one = f"INSERT INTO {table}({whole}) VALUES {_row(whole)}"
        self._several = f"INSERT OR FAIL INTO {table}({columns}) VALUES {row}" + f", {row}" * (
            TOGETHER - 1
        )
        self._last = f"SELECT coalesce(max({key}), 0) FROM {table}" if key else ""

    def run(self, connection: apsw.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        """Inserts them in their order."""
        whole = len(rows) - len(rows) % TOGETHER
        if whole and self._last and not _follow(rows, connection.execute(self._last).get):
            whole = 0
        for at in range(0, whole, TOGETHER):
            values = list(chain.from_iterable(rows[at : at + TOGETHER]))
            if self._last:
                del values[:: len(rows[0])]  # the numbers, which SQLite gives alike
            connection.execute(self._several, values)
        connection.executemany(self._one, rows[whole:])


def _row(columns: str) -> str:
    return f"({', '.join('?' * len(columns.split(',')))})"


def _follow(rows: Sequence[tuple[Any, ...]], last: int) -> bool:
    """Whether these numbers are those after the `last` one, without a gap."""
    return bool(rows[0][0] == last + 1 and rows[-1][0] == last + len(rows))
