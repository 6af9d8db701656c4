"""Many rows for a table: several to a statement, since to run a statement costs as much as one more
row in it."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import apsw
import numpy as np
from numpy.typing import NDArray

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


# What happened to the records of a store since somebody looked: what is kept of them in memory is
# brought up to date by it.

MOST = 10_000  # rows, beyond which all is read anew


class Changes:
    """Rows whose record was edited or deleted; not those that were added, which are higher than all
    before."""

    def __init__(self, also: "Changes | None" = None) -> None:
        """None; `also` is told of all that this one is."""
        self.also = also
        self.rows: set[int] = set()
        self.everything = False  # more than can be told
        self.uncommitted = False  # some of them in the transaction that is open

    def __bool__(self) -> bool:
        """Whether there are any."""
        return self.everything or bool(self.rows)

    def add(self, row: int) -> None:
        """A record was edited or deleted."""
        self.uncommitted = True
        self.rows.add(row)
        if self.also is not None:
            self.also.add(row)
        if len(self.rows) > MOST:
            self._give_up()

    def add_some(self, rows: Iterable[int]) -> None:
        """These were."""
        for row in rows:
            self.add(row)

    def add_all(self) -> None:
        """Too many to tell."""
        self._give_up()
        if self.also is not None:
            self.also.add_all()

    def _give_up(self) -> None:
        self.rows.clear()
        self.uncommitted = self.everything = True

    def clear(self) -> None:
        """Somebody has looked."""
        self.rows.clear()
        self.everything = False


# Numbers of rows, many at once, as they come out of SQLite: a text that group_concat makes costs a
# tenth of so many rows.

Rows = NDArray[np.int64]


def numbers(text: str | None) -> Rows:
    """What group_concat made of integers."""
    return np.fromstring(text or "", dtype=np.int64, sep=",")
