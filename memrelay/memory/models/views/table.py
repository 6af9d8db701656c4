"""The views of a store: those that are defined, and the members of each."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import proxy

import orjson

from memrelay.memory.engine.features import VIEWS
from memrelay.memory.engine.filter_sql import UNEXPIRED
from memrelay.memory.engine.records import PAGE, WIDTH
from memrelay.memory.engine.table import StoreTable
from memrelay.memory.models.views.feature import KeptViews
from memrelay.memory.records.record import Record, RecordExtras, record_of

if TYPE_CHECKING:
    from memrelay.memory.engine.store import Store

ALL = (
    "SELECT name, view, pipeline, changed_at FROM ("
    "SELECT name, view, '' AS pipeline, changed_at FROM defined_views "
    "UNION ALL SELECT name, view, pipeline, changed_at FROM declared_views) "
    "ORDER BY name, pipeline"
)
PUT = (
    "INSERT INTO defined_views VALUES (?, ?, ?) ON CONFLICT(name) "
    "DO UPDATE SET view = excluded.view, changed_at = excluded.changed_at"
)
DECLARED = "SELECT view FROM declared_views WHERE pipeline = ? ORDER BY name"
GUIDS_OF_TOP = (
    "SELECT m.guid FROM view_members AS m CROSS JOIN records AS r ON r.guid = m.guid "
    f"WHERE m.view = ? AND m.part = ? AND m.item = '' AND {UNEXPIRED} ORDER BY m.place "
)
# The newest record of each item that is not expired. A recursive query seeks from item to item.
GUIDS_OF_LATEST = (
    "WITH RECURSIVE items(item) AS ("
    "SELECT min(item) FROM view_members WHERE view = ?1 AND part = ?2 UNION ALL "
    "SELECT (SELECT min(item) FROM view_members WHERE view = ?1 AND part = ?2 AND item > i.item) "
    "FROM items AS i WHERE i.item IS NOT NULL) "
    "SELECT newest FROM (SELECT (SELECT m.guid FROM view_members AS m "
    "CROSS JOIN records AS r ON r.guid = m.guid WHERE m.view = ?1 AND m.part = ?2 "
    f"AND m.item = items.item AND {UNEXPIRED.replace('?', '?3')} "
    "ORDER BY m.place DESC LIMIT 1) AS newest FROM items WHERE item IS NOT NULL) "
    "WHERE newest IS NOT NULL LIMIT ?4"
)
COUNT = "SELECT records FROM view_counts WHERE view = ? AND part = ?"
PARTS = (
    "SELECT part, records FROM view_counts WHERE view = ?1 AND part > ?2 "
    "AND substr(part, 1, length(?3)) = ?3 AND part >= ?3 ORDER BY part LIMIT ?4"
)
RECORDS = f"{PAGE} WHERE r.guid IN (SELECT value FROM json_each(?))"


class StoredView(NamedTuple):
    """A view of a store. `pipeline` is that whose bundle declares it, "" for none."""

    name: str
    # JSON.
    view: str
    pipeline: str
    # Unix ms.
    changed_at: int


def declare_views(
    store: "Store", pipeline: str, views: Sequence[Mapping[str, Any]], now_ms: int
) -> None:
    """Write the views that the bundle of a pipeline declares for a store, and compute their
    members, if they differ from those that the file has.
    """
    table = store.table(ViewTable)
    if table.declared_by(pipeline) != sorted(views, key=lambda view: str(view["name"])):
        with store.transaction():
            table.declare(pipeline, views, now_ms)


class ViewTable(StoreTable):
    """Reads and writes the views of a store inside its open transaction."""

    def __init__(self, store: "Store") -> None:
        super().__init__(store)
        self._store = proxy(store)

    def all(self) -> list[StoredView]:
        """Return the views by their names. A view of the store precedes one of a bundle."""
        found: dict[str, StoredView] = {}
        for row in self._connection.execute(ALL):
            found.setdefault(row[0], StoredView(*row))
        return list(found.values())

    def put(self, view: Mapping[str, Any], now_ms: int) -> None:
        """Add a view, or replace the one with its name, and compute its members."""
        self._catch_up()
        self._connection.execute(PUT, (view["name"], orjson.dumps(view).decode(), now_ms))
        self._apply_change()

    def put_row(self, row: Mapping[str, Any]) -> None:
        """Write a view of an export: a row by its columns."""
        self.put(orjson.loads(row["view"]), row["changed_at"])

    def delete(self, name: str) -> bool:
        """Delete a view that no bundle declares. Return whether there was one."""
        self._catch_up()
        self._connection.execute("DELETE FROM defined_views WHERE name = ?", (name,))
        was_there = bool(self._connection.changes())
        self._apply_change()
        return was_there

    def declared_by(self, pipeline: str) -> list[dict[str, Any]]:
        """Return the views that the bundle of a pipeline declares, by their names."""
        return [orjson.loads(text) for (text,) in self._connection.execute(DECLARED, (pipeline,))]

    def declare(self, pipeline: str, views: Iterable[Mapping[str, Any]], now_ms: int) -> None:
        """Replace the views that the bundle of a pipeline declares."""
        self._catch_up()
        self._connection.execute("DELETE FROM declared_views WHERE pipeline = ?", (pipeline,))
        self._connection.executemany(
            "INSERT INTO declared_views VALUES (?, ?, ?, ?)",
            ((pipeline, one["name"], orjson.dumps(one).decode(), now_ms) for one in views),
        )
        self._apply_change()

    def _catch_up(self) -> None:
        """Bring the members up to date with the changes of the open transaction."""
        self._records.flush()
        if self._store.has_feature(VIEWS):
            self._store.table(KeptViews).complete()

    def _apply_change(self) -> None:
        """Compute the members of new views, and let the writes from now on keep them."""
        self._store.table(KeptViews).build()
        self._store.refresh_features()

    def find(self, name: str) -> tuple[int, dict[str, Any]] | None:
        """Return (number, view) of a view as its members are now, None if there is none."""
        self._catch_up()
        views: KeptViews = self._store.table(KeptViews)
        return views.find(name)

    def count(self, number: int, part: str) -> int:
        """Return how many records a part of a view has."""
        return int(self._connection.execute(COUNT, (number, part)).get or 0)

    def parts(
        self, number: int, after: str, beginning: str, limit: int
    ) -> Iterator[tuple[str, int]]:
        """Yield (part, records) of a view, after a part, and of those with this beginning."""
        values = (number, after, beginning, limit)
        return iter(self._connection.execute(PARTS, values))

    def records(
        self, number: int, view: Mapping[str, Any], part: str, limit: int
    ) -> list[tuple[Record, RecordExtras]]:
        """Return up to `limit` records that a part of a view shows, in its order."""
        show, now_ms = view["show"], self._records.versions.now_ms
        if show == "count":
            return []
        if "latest" in show:
            found = self._connection.execute(GUIDS_OF_LATEST, (number, part, now_ms, limit))
        else:
            order = "ASC" if show["top"].get("order") == "asc" else "DESC"
            sql = f"{GUIDS_OF_TOP}{order}, m.guid {order} LIMIT ?"
            found = self._connection.execute(sql, (number, part, now_ms, limit))
        guids = [guid for (guid,) in found]
        rows = self._connection.execute(RECORDS, (orjson.dumps(guids).decode(),))
        by_guid = {
            (record := record_of(row[1:WIDTH])).guid: (record, RecordExtras._make(row[WIDTH:]))
            for row in rows
        }
        return [by_guid[guid] for guid in guids if guid in by_guid]
