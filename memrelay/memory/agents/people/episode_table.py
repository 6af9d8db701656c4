"""The episodes of a store and their steps. The SQL names the kinds literally (migration 0022)."""

from collections.abc import Iterator
from typing import Any

import apsw

from memrelay.memory.agents.keyed_table import KeyedTable
from memrelay.memory.records.kinds import EPISODE_KIND, STEP_KIND
from memrelay.memory.sqlite.filters import UNEXPIRED
from memrelay.memory.sqlite.records import RecordTable
from memrelay.memory.sqlite.versions import State, StoredRecord, stored_records

IS_EPISODE, IS_STEP = f"r.kind = '{EPISODE_KIND}'", f"r.kind = '{STEP_KIND}'"
NEWEST = " ORDER BY r.created_at DESC, r.row DESC LIMIT ?"
OPEN = (
    f" INDEXED BY open_episodes WHERE {IS_EPISODE} AND json_extract(r.data, '$.ended_at') IS NULL "
    "AND r.key >= ? AND r.key < ? ORDER BY r.row"
)
STEPS = f" WHERE r.thread = ? AND {IS_STEP}"


class EpisodeTable(KeyedTable):
    """Finds and writes episodes and their steps inside the store's open transaction."""

    def __init__(self, connection: apsw.Connection, records: RecordTable) -> None:
        super().__init__(connection, records, EPISODE_KIND, "episode_keys")

    def newest(self, scope: str, owner: str, limit: int) -> Iterator[StoredRecord]:
        """Yield episodes of a user, the newest first. The scope "" covers every agent."""
        self._records.flush()
        clauses = [IS_EPISODE, UNEXPIRED, "r.owner = ?"]
        values: list[Any] = [self._records.versions.now_ms, owner]
        if scope:
            clauses.append("r.scope = ?")
            values.append(scope)
        which = f" INDEXED BY episode_owners WHERE {' AND '.join(clauses)}{NEWEST}"
        return stored_records(self._connection, which, [*values, limit])

    def open_from(self, first: str, end: str) -> list[StoredRecord]:
        """Return the episodes without an end whose key is at least `first` and below `end`."""
        self._records.flush()
        return list(stored_records(self._connection, OPEN, [first, end]))

    def add_step(self, new: State) -> State:
        """Append a step to the log of its episode, and return it as stored."""
        return self._records.insert_whole(new)

    def steps(self, guid: str, limit: int = -1, offset: int = 0) -> list[StoredRecord]:
        """Return steps of an episode, in their order. A limit of -1 means all."""
        self._records.flush()
        which = f"{STEPS} ORDER BY r.seq, r.row LIMIT ? OFFSET ?"
        values: list[Any] = [thread_of(guid), limit, offset]
        return list(stored_records(self._connection, which, values))

    def count_steps(self, guid: str) -> int:
        """Return the number of steps of an episode."""
        self._records.flush()
        sql = f"SELECT count(*) FROM records AS r{STEPS}"
        return int(self._connection.execute(sql, (thread_of(guid),)).get)

    def clear_steps(self, guid: str) -> None:
        """Remove the steps of an episode without keeping a version, before others replace them."""
        for step in self.steps(guid):
            self._records.remove(step)
            self._records.versions.forget(step.guid)

    def delete_with_steps(self, place: StoredRecord) -> None:
        """Delete an episode with its steps, and keep their last versions."""
        for step in self.steps(place.guid):
            self._records.delete(step)
        self._records.delete(place)


def thread_of(guid: str) -> str:
    """Return the thread of the steps of an episode."""
    return f"episode:{guid}"
