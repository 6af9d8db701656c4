"""The number of keys in each store, counted in memory."""

from typing import Any

import apsw

from memrelay.memory.engine.table import ChangeHook
from memrelay.memory.engine.versions import State

COUNT = "SELECT count(*) FROM records WHERE kind = 'store.item' AND scope = ?"
COUNT_MATCHING = (
    "SELECT r.scope, count(*) FROM records AS r{which} AND r.kind = 'store.item' GROUP BY r.scope"
)
# Stores whose count is kept.
MAX_STORES = 10_000


class KeyCounts(ChangeHook):
    """Counts the items of stores. A store is counted once by a query, and then in memory.

    It also knows the keys of buffered items.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._counts: dict[str, int] = {}
        self.buffered: set[str | None] = set()

    def knows(self, store: str) -> bool:
        """Return whether the count of a store needs no query."""
        return store in self._counts

    def of(self, store: str) -> int:
        """Return the number of items in a store. No row may be buffered unless it `knows` it."""
        if store not in self._counts:
            if len(self._counts) >= MAX_STORES:
                self._counts.clear()
            self._counts[store] = self._connection.execute(COUNT, (store,)).get
        return self._counts[store]

    def inserted(self, record: State) -> None:
        """Count a new item, whose row may still be buffered."""
        self.add(record.scope, 1)
        self.buffered.add(record.key)

    def flushed(self) -> None:
        """Note that no item is buffered."""
        self.buffered.clear()

    def moved(self, before: str, after: str) -> None:
        """Count an item in another store."""
        self.add(before, -1)
        self.add(after, 1)

    def removed(self, scope: str) -> None:
        """Count an item less."""
        self.add(scope, -1)

    def removes(self, which: str, values: list[Any]) -> None:
        """Count the items that a WHERE clause on `records AS r` selects, before their removal."""
        if self._counts:
            removed = self._connection.execute(COUNT_MATCHING.format(which=which), values)
            for store, count in removed:
                self.add(str(store), -int(count))

    def reset(self) -> None:
        """Count again, after a rollback or a change that was not reported item by item."""
        self._counts.clear()
        self.buffered.clear()

    def add(self, store: str, change: int) -> None:
        """Add to the count of a store, if it is known."""
        if store in self._counts:
            self._counts[store] += change
