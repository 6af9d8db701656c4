"""Cached sets of rows that pass the filters of searches, updated together with the layout."""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import tzinfo
from itertools import chain
from typing import Any

import apsw
import numpy as np
import orjson
from msgspec.structs import replace
from numpy.typing import NDArray

from memrelay.memory.engine.filter_sql import Clause, Conditions, where
from memrelay.memory.engine.row_arrays import Rows, numbers
from memrelay.memory.engine.row_metadata import Since, rows_with
from memrelay.memory.search.layout import Layout
from memrelay.memory.search.text.dates import LAST_YEAR, find_spans

IN_SPAN = "(r.created_at >= ? AND r.created_at < ?)"
SPANS_AT_ONCE = 100  # spans of time in one query
EPOCH_YEAR, YEAR_MS = 1970, 31_556_952_000
FIRST_AND_LAST = "SELECT min(created_at), max(created_at) FROM records"
KEPT_SETS = 16  # sets of a store; 8 bytes for each row
# With more tags than this, one query for all is faster: the first tag excludes most records.
MAX_SEPARATE_TAGS = 4

KEPT_LISTS = 64  # lists of a store; 8 bytes for each row
MAX_CHANGED = 10_000  # rows; beyond that, all lists are read again
ROWS = "SELECT group_concat(row) FROM (SELECT r.row FROM records AS r{which} ORDER BY r.row)"
AMONG = "r.row IN (SELECT value FROM json_each(?))"


class Filters:
    """The cached row sets of one store, by condition."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._rows: OrderedDict[Clause, Rows] = OrderedDict()

    def mask(self, conditions: Conditions, layout: Layout) -> NDArray[np.bool_] | None:
        """Return by place whether a record meets the conditions; None without conditions."""
        together = None
        for clause in _clauses(conditions):
            mask = np.zeros(len(layout), bool)
            mask[layout.places(self._rows_of(clause))] = True
            together = mask if together is None else together & mask
        return together

    def on_days(self, patterns: Collection[str], layout: Layout, zone: tzinfo) -> NDArray[np.bool_]:
        """Return by place whether a record was created on a day that matches a pattern, in a zone.

        Patterns look like `2023-05-07` or `____-05-__`. They share queries, because a scan takes
        one microsecond per record.
        """
        mask = np.zeros(len(layout), bool)
        has_any_year = any(pattern.startswith("_") for pattern in patterns)
        spans_of_all = find_spans(patterns, zone, self._years() if has_any_year else range(0))
        for start in range(0, len(spans_of_all), SPANS_AT_ONCE):
            spans = spans_of_all[start : start + SPANS_AT_ONCE]
            condition = " OR ".join([IN_SPAN] * len(spans))
            clause = f"({condition})", tuple(chain.from_iterable(spans))
            mask[layout.places(self._rows_of(clause))] = True
        return mask

    def _years(self) -> range:
        """Return the years in which the records were created in any zone, and maybe more."""
        first, last = next(iter(self._connection.execute(FIRST_AND_LAST)))
        if first is None:
            return range(0)
        begin, end = (EPOCH_YEAR + ms // YEAR_MS for ms in (first, last))
        return range(begin - 1, min(end, LAST_YEAR) + 2)

    def change(self, since: Since) -> None:
        """Update the sets: rows above `since.row` are new, `since.changed` rows were modified."""
        changed = np.asarray(since.changed, np.int64)
        for clause, rows in self._rows.items():
            kept = rows[(rows <= since.row) & ~np.isin(rows, changed)]
            added = rows_with(self._connection, *clause, since)
            self._rows[clause] = np.sort(np.concatenate([kept, added]))

    def nbytes(self) -> int:
        """Return the size in memory."""
        return sum(rows.nbytes for rows in self._rows.values())

    def _rows_of(self, clause: Clause) -> Rows:
        if clause not in self._rows:
            self._rows[clause] = rows_with(self._connection, *clause, Since())
            if len(self._rows) > KEPT_SETS:
                self._rows.popitem(last=False)
        self._rows.move_to_end(clause)
        return self._rows[clause]


class RowLists:
    """Cached ascending row lists of one store. Only new and changed rows are read."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._lists: OrderedDict[str, _RowList] = OrderedDict()
        self._changed: list[int] = []

    def change(self, rows: Iterable[int]) -> None:
        """Note that these rows were edited or deleted."""
        if self._lists:
            self._changed += rows
        if len(self._changed) > MAX_CHANGED:
            self.drop()

    def of(self, conditions: Conditions, last_row: int) -> Rows:
        """Return the rows up to `last_row` that meet the conditions, ascending."""
        clauses, values = conditions.clauses()
        key = repr((clauses, values))
        found = self._lists.setdefault(key, _RowList())
        self._lists.move_to_end(key)
        if changed := sorted({row for row in self._changed[found.seen :] if row <= found.known}):
            there = self._read([*clauses, AMONG], [*values, orjson.dumps(changed).decode()])
            found.change(np.array(changed, np.int64), there)
        found.seen = len(self._changed)
        if last_row > found.known:
            found.add(self._read([*clauses, "r.row > ?"], [*values, found.known]))
            found.known = last_row
        if len(self._lists) > KEPT_LISTS:
            self._lists.popitem(last=False)
        return found.rows[: found.count]

    def cut(self, last_row: int) -> None:
        """Remove the rows above `last_row` after a rollback: other records may receive them."""
        for one in self._lists.values():
            one.cut(last_row)

    def drop(self) -> None:
        """Free the lists."""
        self._lists.clear()
        self._changed.clear()

    def nbytes(self) -> int:
        """Return the size in memory."""
        return sum(one.rows.nbytes for one in self._lists.values())

    def _read(self, clauses: Sequence[str], values: Sequence[Any]) -> Rows:
        return numbers(self._connection.execute(ROWS.format(which=where(*clauses)), values).get)


class _RowList:
    """Ascending rows, with spare capacity at the end."""

    def __init__(self) -> None:
        self.rows, self.count, self.known = np.empty(0, np.int64), 0, 0
        self.seen = 0  # changed rows that were applied

    def add(self, new: Rows) -> None:
        count = self.count + len(new)
        if count > len(self.rows):
            longer = np.empty(count * 3 // 2, np.int64)
            longer[: self.count] = self.rows[: self.count]
            self.rows = longer
        self.rows[self.count : count] = new
        self.count = count

    def change(self, changed: Rows, there: Rows) -> None:
        """Apply changes: of the `changed` rows, only those `there` still belong; all ascending."""
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


def _clauses(conditions: Conditions) -> Iterator[Clause]:
    """Yield each condition by itself, because searches rarely repeat a combination.

    Many tags stay together: each would be a scan of its own.
    """
    parts = [Conditions({name: value}) for name, value in conditions.equal.items()]
    few = len(conditions.tags) <= MAX_SEPARATE_TAGS
    parts += (
        [Conditions(tags=(tag,)) for tag in conditions.tags]
        if few
        else [Conditions(tags=conditions.tags)]
    )
    rest = replace(conditions, equal={}, tags=())
    names = ("kinds", "scopes", "globs", "after_ms", "before_ms", "given", "without_agents")
    parts += [replace(Conditions(), **{name: getattr(rest, name)}) for name in names]
    for part in parts:
        clauses, values = part.clauses()
        if clauses:
            yield " AND ".join(clauses), tuple(values)
