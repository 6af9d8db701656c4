"""Counters of records: uses, outcomes and durations.

Counting changes neither the record nor its version, so it leaves no history and no change in the
feed. A trigger (migration 0018) deletes a row with its record.
"""

from typing import NamedTuple

from memrelay.memory.engine.table import StoreTable

FIND = "SELECT uses, used_at, seen_at, good, bad, timed, total_ms FROM tallies WHERE guid = ?"
LATEST_USE = "used_at = max(ifnull(used_at, 0), excluded.used_at)"
LATEST_SEEN = "seen_at = max(ifnull(seen_at, 0), excluded.seen_at)"
COUNT_USE = (
    "INSERT INTO tallies(guid, uses, used_at) VALUES (?, 1, ?) "
    f"ON CONFLICT (guid) DO UPDATE SET uses = uses + 1, {LATEST_USE}"
)
COUNT_OUTCOME = (
    "INSERT INTO tallies(guid, good, bad, timed, total_ms) VALUES (?, ?, ?, ?, ?) "
    "ON CONFLICT (guid) DO UPDATE SET good = good + excluded.good, bad = bad + excluded.bad, "
    "timed = timed + excluded.timed, total_ms = total_ms + excluded.total_ms"
)
NOTE_SEEN = (
    "INSERT INTO tallies(guid, seen_at) VALUES (?, ?) "
    f"ON CONFLICT (guid) DO UPDATE SET {LATEST_SEEN}"
)

ADD = (
    "INSERT INTO tallies(guid, uses, used_at, seen_at, good, bad, timed, total_ms) "
    "SELECT ?2, uses, used_at, seen_at, good, bad, timed, total_ms FROM tallies WHERE guid = ?1 "
    "ON CONFLICT (guid) DO UPDATE SET uses = uses + excluded.uses, "
    "used_at = nullif(max(ifnull(used_at, 0), ifnull(excluded.used_at, 0)), 0), "
    "seen_at = nullif(max(ifnull(seen_at, 0), ifnull(excluded.seen_at, 0)), 0), "
    "good = good + excluded.good, bad = bad + excluded.bad, timed = timed + excluded.timed, "
    "total_ms = total_ms + excluded.total_ms"
)


class Counters(NamedTuple):
    """Uses and outcomes of one record. Times are Unix ms, None for never."""

    uses: int = 0
    used_at: int | None = None
    seen_at: int | None = None
    good: int = 0
    bad: int = 0
    # Outcomes with a duration, and the sum of their durations.
    timed: int = 0
    total_ms: int = 0

    @property
    def mean_ms(self) -> float | None:
        """Return the mean duration, None if no outcome had one."""
        return self.total_ms / self.timed if self.timed else None


# The columns of `tallies AS t` in the order of Counters, after a LEFT JOIN that may find no row.
COUNTS = ", ".join(
    f"t.{name}" if name.endswith("_at") else f"ifnull(t.{name}, 0)" for name in Counters._fields
)


class CounterTable(StoreTable):
    """Counts and reads inside the store's open transaction. The guid is that of a record."""

    def find(self, guid: str) -> Counters:
        """Return the counters of a record, all zero if nothing was counted."""
        found = self._connection.execute(FIND, (guid,)).fetchone()
        return Counters() if found is None else Counters._make(found)

    def count_use(self, guid: str, now_ms: int) -> None:
        """Count a use, such as a recall."""
        self._connection.execute(COUNT_USE, (guid, now_ms))

    def count_outcome(self, guid: str, *, is_good: bool, took_ms: int | None = None) -> None:
        """Count a success or a failure, with its duration if it is known.

        Some models count confirmations and contradictions with it.
        """
        is_timed = took_ms is not None
        values = (guid, is_good, not is_good, is_timed, took_ms or 0)
        self._connection.execute(COUNT_OUTCOME, values)

    def note_seen(self, guid: str, now_ms: int) -> None:
        """Note when the subject of a record, such as a user, was last seen."""
        self._connection.execute(NOTE_SEEN, (guid, now_ms))

    def move(self, guid: str, to: str) -> None:
        """Add the counters of a record to those of another one, and reset them."""
        self._connection.execute(ADD, (guid, to))
        self._connection.execute("DELETE FROM tallies WHERE guid = ?", (guid,))
