"""The table of events, which are only appended."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import apsw

from memrelay.memory.models.recipes.sources.where import Clause

COLUMNS = "id, stream, sequence, type, payload, metadata, at"
INSERT = f"INSERT INTO events(instance, {COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
LAST_SEQUENCE = "SELECT coalesce(max(sequence), 0) FROM events WHERE instance = ? AND stream = ?"
# Each name is found with one jump in the index.
STREAMS = """
WITH RECURSIVE names(name) AS (
  SELECT min(stream) FROM events WHERE instance = ?1
  UNION ALL
  SELECT (SELECT min(stream) FROM events WHERE instance = ?1 AND stream > name)
  FROM names WHERE name IS NOT NULL
)
SELECT name FROM names WHERE name IS NOT NULL LIMIT ?2
"""
NEWEST_FIRST = "at DESC, row DESC"


class Event(NamedTuple):
    """A row. `payload` and `metadata` are JSON, `at` is Unix ms."""

    id: str
    stream: str
    sequence: int
    type: str
    payload: str
    metadata: str
    at: int


class EventTable:
    """Reads and appends events inside the store's open transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def append(self, instance: str, events: Sequence[Event]) -> None:
        """Append events."""
        self._connection.executemany(INSERT, [(instance, *event) for event in events])

    def last_sequence(self, instance: str, stream: str) -> int:
        """Return the sequence of the last event of a stream, 0 for none."""
        return int(self._connection.execute(LAST_SEQUENCE, (instance, stream)).get)

    def delete(self, instance: str) -> None:
        """Delete all events of an instance."""
        self._connection.execute("DELETE FROM events WHERE instance = ?", (instance,))

    def count(self, instance: str, where: Clause = ("1", ())) -> int:
        """Return the number of events."""
        query = f"SELECT count(*) FROM events WHERE instance = ? AND {where[0]}"
        return int(self._connection.execute(query, (instance, *where[1])).get)

    def select(
        self,
        instance: str,
        where: Clause,
        window: tuple[int, int],
        order: Clause = (NEWEST_FIRST, ()),
    ) -> Iterator[Event]:
        """Yield events. `window` is (limit, offset)."""
        query = (
            f"SELECT {COLUMNS} FROM events WHERE instance = ? AND {where[0]} "
            f"ORDER BY {order[0]} LIMIT ? OFFSET ?"
        )
        values = (instance, *where[1], *order[1], *window)
        return map(Event._make, self._connection.execute(query, values))

    def rows(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return the rows of a query for an aggregation."""
        return list(self._connection.execute(sql, values))

    def streams(self, instance: str, most: int) -> list[str]:
        """Return the streams in order of their names."""
        return [name for (name,) in self._connection.execute(STREAMS, (instance, most))]
