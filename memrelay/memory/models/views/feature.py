"""The feature that keeps the members of views, in the transaction of each change.

A batch notes the guids of its changes. Before the commit, a few statements for each view take the
members of these records out and put them in again.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import proxy

import orjson

from memrelay.memory.engine.features import Feature
from memrelay.memory.engine.feed import APPENDED, CREATED, DELETED, EVENT, EXPIRED, UPDATED
from memrelay.memory.models.views.selection import (
    MATCHES,
    Selection,
    compile_pattern,
    select_members,
)

if TYPE_CHECKING:
    from memrelay.memory.engine.store import Store

CHANGES = (CREATED, UPDATED, DELETED, EXPIRED)
GUIDS = "(SELECT value FROM json_each(?))"
SELECTED = "(SELECT guid FROM records AS r{which})"
# One view for each name: those of the store before those of bundles.
WANTED = (
    "SELECT name, view FROM ("
    "SELECT name, view, '' AS pipeline FROM defined_views "
    "UNION ALL SELECT name, view, pipeline FROM declared_views) ORDER BY pipeline DESC"
)
BUILT = "SELECT id, name, view FROM built_views"
ADD_BUILT = "INSERT INTO built_views(name, view) VALUES (?, ?) RETURNING id"
TAKE_OUT = (
    "INSERT INTO view_counts SELECT view, part, -count(*) FROM view_members WHERE guid IN {guids} "
    "GROUP BY view, part "
    "ON CONFLICT(view, part) DO UPDATE SET records = records + excluded.records",
    "DELETE FROM view_members WHERE guid IN {guids}",
)
COUNT_AGAIN = (
    "INSERT INTO view_counts SELECT view, part, count(*) FROM view_members WHERE guid IN {guids} "
    "GROUP BY view, part "
    "ON CONFLICT(view, part) DO UPDATE SET records = records + excluded.records"
)
# The members follow from the records, so the next transaction computes them again.
REBUILD = "DELETE FROM built_views; DELETE FROM view_members; DELETE FROM view_counts"
DELETE_EMPTY = "DELETE FROM view_counts WHERE records = 0"
COUNT_ALL = (
    "INSERT INTO view_counts SELECT view, part, count(*) FROM view_members WHERE view = ? "
    "GROUP BY view, part"
)


class KeptViews(Feature):
    """Keeps the members of the views of a store."""

    def __init__(self, store: "Store") -> None:
        super().__init__(store)
        # The records keep the path, so a real reference would be a cycle.
        self._records = proxy(store.records)
        self._connection.create_scalar_function(MATCHES, _Patterns().matches, 2)
        self._created: list[str] = []
        self._changed: dict[str, None] = {}
        self._has_appended = False
        # By name: the number, the view and its selection. None until it is read from the file.
        self._views: dict[str, tuple[int, dict[str, Any], Selection]] | None = None

    def reset(self) -> None:
        """Forget what the open transaction has noted, and the views."""
        self._created.clear()
        self._changed.clear()
        self._has_appended, self._views = False, None

    def created(self, guid: str) -> None:
        """Note a new record."""
        self._created.append(guid)

    def changed(self, change: Any, subject: str, data: Mapping[str, Any] | None = None) -> None:
        """Note a change of a record."""
        if change in CHANGES:
            self._changed[subject] = None
            self._has_appended |= data is not None and data.get(EVENT) == APPENDED

    def selected(self, change: Any, which: str, values: Sequence[Any]) -> None:
        """Take out the members of the records that a WHERE clause selects, which are deleted."""
        self._records.flush()
        self.complete()
        self._take_out(SELECTED.format(which=which), values)

    def find(self, name: str) -> tuple[int, dict[str, Any]] | None:
        """Return (number, view) of a view, None if there is none."""
        found = (self.build() if self._views is None else self._views).get(name)
        return None if found is None else found[:2]

    def complete(self) -> None:
        """Bring the members up to date with the changes of the batch."""
        if not (self._created or self._changed) and self._views is not None:
            return
        if self._has_appended:
            self._records.merge_appended(self._records.appends.rows())
            self._has_appended = False
        guids = _pack([*self._created, *self._changed])
        if self._views is None:
            # A view that is computed now has the new records already.
            self.build()
            self._take_out(GUIDS, (guids,))
        elif self._changed:
            self._take_out(GUIDS, (_pack(self._changed),))
        self._created.clear()
        self._changed.clear()
        for _, _, selection in (self._views or {}).values():
            self._connection.execute(selection.among, (*selection.values, guids))
        self._connection.execute(COUNT_AGAIN.format(guids=GUIDS), (guids,))

    def _take_out(self, guids: str, values: Sequence[Any]) -> None:
        for sql in TAKE_OUT:
            self._connection.execute(sql.format(guids=guids), values)
        self._connection.execute(DELETE_EMPTY)

    def build(self) -> dict[str, tuple[int, dict[str, Any], Selection]]:
        """Compute the members of new and changed views from all records, and delete those of views
        that are gone. The records must have no buffered rows.
        """
        wanted = dict(self._connection.execute(WANTED))
        built = {name: (n, view) for n, name, view in self._connection.execute(BUILT)}
        for name, (number, view) in built.items():
            if wanted.get(name) != view:
                for table, column in (
                    ("built_views", "id"),
                    ("view_members", "view"),
                    ("view_counts", "view"),
                ):
                    self._connection.execute(f"DELETE FROM {table} WHERE {column} = ?", (number,))
        self._views = {}
        for name, text in wanted.items():
            is_built = name in built and built[name][1] == text
            number = built[name][0] if is_built else self._add(name, text)
            view = orjson.loads(text)
            selection = select_members(number, view)
            self._views[name] = number, view, selection
            if not is_built:
                self._connection.execute(selection.sql, selection.values)
                self._connection.execute(COUNT_ALL, (number,))
        return self._views

    def _add(self, name: str, text: str) -> int:
        return int(self._connection.execute(ADD_BUILT, (name, text)).get)


class _Patterns:
    """The compiled patterns of the views of a store."""

    def __init__(self) -> None:
        self._compiled: dict[str, Any] = {}

    def matches(self, *values: Any) -> bool:
        """Take a pattern and a text. Return whether the text has a match."""
        source, text = values
        if (compiled := self._compiled.get(source)) is None:
            compiled = self._compiled[source] = compile_pattern(source)
        return bool(compiled(text))


def _pack(guids: Any) -> str:
    return orjson.dumps([*guids]).decode()
