"""The rows of records that meet some conditions, kept from question to question; what is new is read, and nothing else."""
from collections import OrderedDict

import apsw
import numpy as np

from memory.sqlite.filters import Conditions, where
from memory.sqlite.vocabulary import Rows, numbers

KEPT = 64   # lists of a store; 8 bytes a row


class _List:
    """Rows, ascending, with room for more at the end."""

    def __init__(self) -> None:
        self.rows, self.count, self.known = np.empty(0, np.int64), 0, 0

    def add(self, new: Rows) -> None:
        count = self.count + len(new)
        if count > len(self.rows):
            longer = np.empty(count * 3 // 2, np.int64)
            longer[:self.count] = self.rows[:self.count]
            self.rows = longer
        self.rows[self.count:count] = new
        self.count = count

    def cut(self, last_row: int) -> None:
        self.count = int(np.searchsorted(self.rows[:self.count], last_row, side="right"))
        self.known = min(self.known, last_row)


class RowLists:
    """For one store. A row that was edited or deleted stays in its list: whoever asks looks at what is there."""

    def __init__(self, connection: apsw.Connection) -> None:
        """None yet."""
        self._connection = connection
        self._lists: OrderedDict[str, _List] = OrderedDict()

    def of(self, conditions: Conditions, last_row: int) -> Rows:
        """The rows up to `last_row`, ascending."""
        clauses, values = conditions.clauses()
        key = repr((clauses, values))
        found = self._lists.setdefault(key, _List())
        self._lists.move_to_end(key)
        if last_row > found.known:
            sql = f"SELECT group_concat(row) FROM (SELECT r.row FROM records AS r{where(*clauses, 'r.row > ?')} ORDER BY r.row)"
            found.add(numbers(self._connection.execute(sql, [*values, found.known]).get))
            found.known = last_row
        if len(self._lists) > KEPT:
            self._lists.popitem(last=False)
        return found.rows[:found.count]

    def cut(self, last_row: int) -> None:
        """After a rollback: the rows above may be given to other records."""
        for one in self._lists.values():
            one.cut(last_row)

    def drop(self) -> None:
        """Gives back what is kept."""
        self._lists.clear()

    def nbytes(self) -> int:
        """What they take in memory."""
        return sum(one.rows.nbytes for one in self._lists.values())
