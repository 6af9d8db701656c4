"""The number of keys in each store, counted in memory."""

from typing import Any

import apsw

COUNT = "SELECT count(*) FROM records WHERE kind = 'store.item' AND scope = ?"
COUNT_MATCHING = (
    "SELECT r.scope, count(*) FROM records AS r{which} AND r.kind = 'store.item' GROUP BY r.scope"
)
# Stores whose count is kept.
MAX_STORES = 10_000


class KeyCounts:
    """Counts the items of stores. A store is counted once by a query, and then in memory.

    RecordTable reports every change.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._counts: dict[str, int] = {}

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

    def add(self, store: str, change: int) -> None:
        """Count items that were added to a store, or removed if `change` is negative."""
        if store in self._counts:
            self._counts[store] += change

    def subtract(self, which: str, values: list[Any]) -> None:
        """Count the items that a WHERE clause on `records AS r` selects, before their removal."""
        if self._counts:
            removed = self._connection.execute(COUNT_MATCHING.format(which=which), values)
            for store, count in removed:
                self.add(str(store), -int(count))

    def clear(self) -> None:
        """Count again, after a rollback or a change that was not reported item by item."""
        self._counts.clear()
