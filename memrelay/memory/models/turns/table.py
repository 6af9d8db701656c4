"""The turns of a store by conversation, found by the index of threads (migration 0006)."""

from collections.abc import Iterator
from typing import NamedTuple

from memrelay.memory.engine.filter_sql import Conditions, Filters, where
from memrelay.memory.engine.table import StoreTable
from memrelay.memory.engine.versions import State, StoredRecord, stored_records

# The newest turns of a thread in which repeated messages and users are looked for.
RECENT = 1000
IN_THREAD = "r.thread = ?"
NEWEST = " ORDER BY r.seq DESC, r.row DESC LIMIT ?"
RECENT_ROWS = (
    "r.row IN (SELECT row FROM records WHERE thread = ? ORDER BY seq DESC, row DESC LIMIT ?)"
)
NEXT_THREAD = "SELECT min(thread) FROM records WHERE thread > ?"


class ThreadSummary(NamedTuple):
    """A conversation, with its newest turn and the time of its first one, Unix ms."""

    thread: str
    newest: State
    first_at: int


class TurnTable(StoreTable):
    """Reads and deletes turns inside the store's open transaction. RecordTable writes them.

    `equal` has the values of columns that a turn must have.
    """

    def newest(
        self, thread: str, equal: Filters, limit: int, before: int | None = None
    ) -> Iterator[StoredRecord]:
        """Yield the newest turns of a thread, the newest first; with `before`, those whose position
        is lower.
        """
        clauses, values = self._clauses(equal)
        clauses, values = [IN_THREAD, *clauses], [thread, *values]
        if before is not None:
            clauses, values = [*clauses, "r.seq < ?"], [*values, before]
        return stored_records(self._connection, where(*clauses) + NEWEST, [*values, limit])

    def count_at(self, thread: str, equal: Filters, position: int) -> int:
        """Return how many turns of a thread have a position. Imports may give several the same."""
        clauses, values = self._clauses(equal)
        sql = f"SELECT count(*) FROM records AS r{where(IN_THREAD, 'r.seq = ?', *clauses)}"
        return int(self._connection.execute(sql, [thread, position, *values]).get)

    def known_ids(self, thread: str, equal: Filters) -> dict[str, str]:
        """Return id -> guid of the newest turns of a thread that have an id."""
        clauses, values = self._clauses(equal)
        which = where(RECENT_ROWS, "r.key IS NOT NULL", *clauses)
        sql = f"SELECT r.key, r.guid FROM records AS r{which}"
        return dict(self._connection.execute(sql, [thread, RECENT, *values]))

    def threads(self, after: str, equal: Filters) -> Iterator[tuple[str, ThreadSummary | None]]:
        """Yield each thread whose name comes after `after`, by name. It has a summary if one of its
        newest turns has the values.
        """
        self._records.flush()
        while (name := self._connection.execute(NEXT_THREAD, (after,)).get) is not None:
            after = str(name)
            yield after, self._summary(after, equal)

    def delete(self, stored: StoredRecord) -> None:
        """Delete a turn and keep its last version."""
        self._records.delete(stored)

    def delete_thread(self, thread: str, equal: Filters) -> int:
        """Delete the turns of a thread, keep their last versions, and return their number."""
        return self._records.delete_all({**equal, "thread": thread})

    def _summary(self, thread: str, equal: Filters) -> ThreadSummary | None:
        clauses, values = self._clauses(equal)
        which = where(RECENT_ROWS, *clauses) + NEWEST
        found = stored_records(self._connection, which, [thread, RECENT, *values, 1])
        newest = next(found, None)
        if newest is None:
            return None
        sql = "SELECT created_at FROM records WHERE thread = ? ORDER BY seq, row LIMIT 1"
        return ThreadSummary(thread, newest.state, self._connection.execute(sql, (thread,)).get)

    def _clauses(self, equal: Filters) -> tuple[list[str], list[object]]:
        self._records.flush()
        return self._records.expiry.clauses(Conditions(equal=equal), self._records.versions.now_ms)
