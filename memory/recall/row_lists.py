"""The rows of records that meet some conditions, kept from question to question; what is new or
changed is read, no more."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any

import apsw
import numpy as np
import orjson

from memory.sqlite.filters import Conditions, where
from memory.sqlite.row_numbers import Rows, numbers

KEPT = 64  # lists of a store; 8 bytes a row
MOST_CHANGED = 10_000  # rows, beyond which all lists are read anew
ROWS = "SELECT group_concat(row) FROM (SELECT r.row FROM records AS r{which} ORDER BY r.row)"
AMONG = "r.row IN (SELECT value FROM json_each(?))"


class _List:
    """Rows, ascending, with room for more at the end."""

    def __init__(self) -> None:
        self.rows, self.count, self.known = np.empty(0, np.int64), 0, 0
        self.seen = 0  # of the changed rows

    def add(self, new: Rows) -> None:
        count = self.count + len(new)
        if count > len(self.rows):
            longer = np.empty(count * 3 // 2, np.int64)
            longer[: self.count] = self.rows[: self.count]
            self.rows = longer
        self.rows[self.count : count] = new
        self.count = count

    def change(self, changed: Rows, there: Rows) -> None:
        """Of the changed ones, those that are there; all ascending."""
        rows = self.rows[: self.count]
        places = np.searchsorted(rows, changed)
        inside = places < len(rows)
        places = places[inside][rows[places[inside]] == changed[inside]]
        if np.array_equal(rows[places], there):  # as after most edits
            return
        rows = np.delete(rows, places)
        self.rows = np.insert(rows, np.searchsorted(rows, there), there)
        self.count = len(self.rows)

    def cut(self, last_row: int) -> None:
        self.count = int(np.searchsorted(self.rows[: self.count], last_row, side="right"))
        self.known = min(self.known, last_row)


class RowLists:
    """For one store, told of what is edited and deleted."""

    def __init__(self, connection: apsw.Connection) -> None:
        """None yet."""
        self._connection = connection
        self._lists: OrderedDict[str, _List] = OrderedDict()
        self._changed: list[int] = []

    def change(self, rows: Iterable[int]) -> None:
        """These may meet other conditions now, or are gone."""
        if self._lists:
            self._changed += rows
        if len(self._changed) > MOST_CHANGED:
            self.drop()

    def of(self, conditions: Conditions, last_row: int) -> Rows:
        """The rows up to `last_row`, ascending."""
        clauses, values = conditions.clauses()
        key = repr((clauses, values))
        found = self._lists.setdefault(key, _List())
        self._lists.move_to_end(key)
        if changed := sorted({row for row in self._changed[found.seen :] if row <= found.known}):
            there = self._read([*clauses, AMONG], [*values, orjson.dumps(changed).decode()])
            found.change(np.array(changed, np.int64), there)
        found.seen = len(self._changed)
        if last_row > found.known:
            found.add(self._read([*clauses, "r.row > ?"], [*values, found.known]))
            found.known = last_row
        if len(self._lists) > KEPT:
            self._lists.popitem(last=False)
        return found.rows[: found.count]

    def _read(self, clauses: Sequence[str], values: Sequence[Any]) -> Rows:
        return numbers(self._connection.execute(ROWS.format(which=where(*clauses)), values).get)

    def cut(self, last_row: int) -> None:
        """After a rollback: the rows above may be given to other records."""
        for one in self._lists.values():
            one.cut(last_row)

    def drop(self) -> None:
        """Gives back what is kept."""
        self._lists.clear()
        self._changed.clear()

    def nbytes(self) -> int:
        """What they take in memory."""
        return sum(one.rows.nbytes for one in self._lists.values())
