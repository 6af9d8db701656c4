"""Which records pass a search's filters: sets of rows, kept from search to search and brought up to
date with the layout."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apsw
import numpy as np
import orjson
from msgspec.structs import replace
from numpy.typing import NDArray

from memrelay.memory.search.layout import Layout
from memrelay.memory.sqlite.filters import Clause, Conditions, where
from memrelay.memory.sqlite.outline import Since, rows_with
from memrelay.memory.sqlite.rows import Rows, numbers

ON_DAYS = "strftime('{form}', r.created_at / 1000, 'unixepoch') IN (SELECT value FROM json_each(?))"
PARTS = "%Y", "%m", "%d"  # of a day, as strftime has them
KEPT_SETS = 16  # sets of a store; 8 bytes a record that passes
APART = 4  # tags of a search that each have a set: of more, most records are out after the first


class Filters:
    """Sets of rows by condition; for one store."""

    def __init__(self, connection: apsw.Connection) -> None:
        """None yet."""
        self._connection = connection
        self._rows: OrderedDict[Clause, Rows] = OrderedDict()

    def mask(self, conditions: Conditions, layout: Layout) -> NDArray[np.bool_] | None:
        """Whether each place meets the conditions; None where there are none."""
        together = None
        for clause in _clauses(conditions):
            mask = np.zeros(len(layout), bool)
            mask[layout.places(self._of(clause))] = True
            together = mask if together is None else together & mask
        return together

    def on_days(self, patterns: Iterable[str], layout: Layout) -> NDArray[np.bool_]:
        """Whether each place's record was made on a day, in UTC, that one of these patterns has:
        `2023-05-07`, `____-05-__`.

        Those of one form are looked for together, since a look at every record takes a microsecond
        for each.
        """
        mask, together = np.zeros(len(layout), bool), dict[str, list[str]]()
        for pattern in patterns:
            named = [
                (part, said)
                for part, said in zip(PARTS, pattern.split("-"), strict=True)
                if "_" not in said
            ]
            together.setdefault("-".join(part for part, _ in named), []).append(
                "-".join(said for _, said in named)
            )
        for form, said in together.items():
            mask[
                layout.places(self._of((ON_DAYS.format(form=form), (orjson.dumps(said).decode(),))))
            ] = True
        return mask

    def change(self, since: Since) -> None:
        """Rows came after `since.row`, and its others were changed or deleted."""
        changed = np.asarray(since.changed, np.int64)
        for clause, rows in self._rows.items():
            kept = rows[(rows <= since.row) & ~np.isin(rows, changed)]
            added = rows_with(self._connection, *clause, since)
            self._rows[clause] = np.sort(np.concatenate([kept, added]))

    def nbytes(self) -> int:
        """What they take in memory."""
        return sum(rows.nbytes for rows in self._rows.values())

    def _of(self, clause: Clause) -> Rows:
        if clause not in self._rows:
            self._rows[clause] = rows_with(self._connection, *clause, Since())
            if len(self._rows) > KEPT_SETS:
                self._rows.popitem(last=False)
        self._rows.move_to_end(clause)
        return self._rows[clause]


def _clauses(conditions: Conditions) -> Iterator[Clause]:
    """Each condition by itself, since searches seldom have the same ones together; but many tags,
    which are a look each."""
    parts = [Conditions({name: value}) for name, value in conditions.equal.items()]
    few = len(conditions.tags) <= APART
    parts += (
        [Conditions(tags=(tag,)) for tag in conditions.tags]
        if few
        else [Conditions(tags=conditions.tags)]
    )
    rest = replace(conditions, equal={}, tags=())
    names = ("kinds", "scopes", "globs", "after_ms", "before_ms", "given")
    parts += [replace(Conditions(), **{name: getattr(rest, name)}) for name in names]
    for part in parts:
        clauses, values = part.clauses()
        if clauses:
            yield " AND ".join(clauses), tuple(values)


# The rows of records that meet some conditions, kept from question to question; what is new or
# changed is read, no more.

KEPT_LISTS = 64  # lists of a store; 8 bytes a row
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
        if len(self._lists) > KEPT_LISTS:
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
