"""The table of key-value pairs."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import apsw
import orjson

from memrelay.memory.models.recipes.sources.where import Clause

SET = (
    "INSERT INTO kv(instance, namespace, key, value, updated_at) VALUES (?, ?, ?, ?, ?) "
    "ON CONFLICT DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at"
)
COLUMNS = "namespace, key, value, updated_at"
SELECT_KEYS = (
    f"SELECT {COLUMNS} FROM kv WHERE instance = ? AND namespace = ? "
    "AND key IN (SELECT value FROM json_each(?))"
)
# Each name is found with one jump in the index.
NAMESPACES = """
WITH RECURSIVE names(name) AS (
  SELECT min(namespace) FROM kv WHERE instance = ?1
  UNION ALL
  SELECT (SELECT min(namespace) FROM kv WHERE instance = ?1 AND namespace > name)
  FROM names WHERE name IS NOT NULL
)
SELECT name FROM names WHERE name IS NOT NULL LIMIT ?2
"""


class Pair(NamedTuple):
    """A row. `value` is JSON, `updated_at` Unix ms."""

    namespace: str
    key: str
    value: str
    updated_at: int


class KvTable:
    """Reads and writes pairs inside the store's open transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def set(self, instance: str, pair: Pair) -> None:
        """Write a pair. It replaces the pair with its key."""
        self._connection.execute(SET, (instance, *pair))

    def get(self, instance: str, namespace: str, keys: Sequence[str]) -> dict[str, Pair]:
        """Return the pairs with these keys, by key."""
        wanted = orjson.dumps(keys).decode()
        rows = self._connection.execute(SELECT_KEYS, (instance, namespace, wanted))
        return {pair.key: pair for pair in map(Pair._make, rows)}

    def delete(self, instance: str, namespace: str | None = None, key: str | None = None) -> int:
        """Delete the pairs of an instance, of a namespace or with a key. Return their number."""
        sql, values = _of(instance, namespace)
        if key is not None:
            sql, values = f"{sql} AND key = ?", (*values, key)
        self._connection.execute(f"DELETE FROM kv WHERE {sql}", values)
        return self._connection.changes()

    def count(self, instance: str, namespace: str | None = None, where: Clause = ("1", ())) -> int:
        """Return the number of pairs."""
        sql, values = _of(instance, namespace)
        query = f"SELECT count(*) FROM kv WHERE {sql} AND {where[0]}"
        return int(self._connection.execute(query, (*values, *where[1])).get)

    def select(
        self,
        instance: str,
        namespace: str | None,
        where: Clause,
        order: str,
        window: tuple[int, int],
    ) -> Iterator[Pair]:
        """Yield pairs. `order` is SQL, `window` is (limit, offset)."""
        sql, values = _of(instance, namespace)
        query = (
            f"SELECT {COLUMNS} FROM kv WHERE {sql} AND {where[0]} ORDER BY {order} LIMIT ? OFFSET ?"
        )
        rows = self._connection.execute(query, (*values, *where[1], *window))
        return map(Pair._make, rows)

    def namespaces(self, instance: str, most: int) -> list[str]:
        """Return the namespaces in order of their names."""
        return [name for (name,) in self._connection.execute(NAMESPACES, (instance, most))]


def _of(instance: str, namespace: str | None) -> tuple[str, tuple[Any, ...]]:
    if namespace is None:
        return "instance = ?", (instance,)
    return "instance = ? AND namespace = ?", (instance, namespace)
