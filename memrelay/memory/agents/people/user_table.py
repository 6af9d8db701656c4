"""The users of a store by canonical id, telegram_id and email.

The SQL names the kinds literally and repeats the expressions of the indexes (migration 0022).
"""

from collections.abc import Iterable, Iterator

import apsw
import orjson

from memrelay.memory.agents.keyed_table import KeyedTable
from memrelay.memory.records.kinds import EPISODE_KIND, FACT_KIND, USER_KIND
from memrelay.memory.records.record import Further, Record
from memrelay.memory.sqlite.filters import UNEXPIRED
from memrelay.memory.sqlite.records import RecordTable
from memrelay.memory.sqlite.versions import State, StoredRecord, stored_records

USERS = "users"
IS_USER = f"r.kind = '{USER_KIND}'"
BY_IDENTIFIER = {
    "telegram_id": f" INDEXED BY user_telegram_ids WHERE {IS_USER} "
    "AND json_extract(r.data, '$.telegram_id') = ?",
    "email": f" INDEXED BY user_emails WHERE {IS_USER} AND json_extract(r.data, '$.email') = ?",
}
# Fields of a user that name the person outside of the store. The indexed ones are unique.
IDENTIFIERS = ("telegram_id", "telegram_username", "email")
MERGED_INTO = f" WHERE {IS_USER} AND json_extract(r.data, '$.merged_into') = ?"
MOST_USED_FACTS = (
    f" LEFT JOIN tallies AS t USING (guid) WHERE r.kind = '{FACT_KIND}' AND r.scope = ? "
    f"AND {UNEXPIRED} ORDER BY ifnull(t.uses, 0) DESC, r.updated_at DESC, r.row DESC LIMIT ?"
)
BELONGING = " WHERE (r.owner = ?1 OR r.scope = 'user:' || ?1) AND r.kind <> 'memory.user'"
TURNS = (
    "SELECT guid, content, source, ifnull(data, '') FROM records WHERE thread IS NOT NULL "
    "AND (instr(lower(content), ?1) OR lower(source) = ?1 OR instr(lower(ifnull(data, '')), ?1))"
)
FACTS = " UNION ALL ".join(
    f"SELECT guid, ifnull(content, ''), ifnull(data, '') FROM {table} WHERE kind = '{FACT_KIND}'"
    for table in ("records", "versions")
)
EXECUTIONS = (
    f"SELECT key FROM records WHERE kind = '{EPISODE_KIND}' AND key IS NOT NULL "
    "AND guid IN (SELECT value FROM json_each(?))"
)


class UserTable(KeyedTable):
    """Finds and writes users inside the store's open transaction."""

    def __init__(self, connection: apsw.Connection, records: RecordTable) -> None:
        super().__init__(connection, records, USER_KIND, "user_keys")

    def by_id(self, user_id: str) -> StoredRecord | None:
        """Return the user with that canonical id, None if there is none. Merges do not count."""
        return self.find(USERS, user_id)

    def by_identifier(self, name: str, value: str) -> StoredRecord | None:
        """Return the user with that `telegram_id` or `email`, None if there is none."""
        self._records.flush()
        return next(stored_records(self._connection, BY_IDENTIFIER[name], [value]), None)

    def holder(self, state: State) -> StoredRecord | None:
        """Return the other user that has the canonical id, telegram_id or email of a user."""
        if state.kind != self.kind:
            return None
        data = orjson.loads(state.data or "{}")
        found = [super().holder(state)]
        for name in BY_IDENTIFIER:
            if data.get(name):
                found.append(self.by_identifier(name, data[name]))
        return next((one for one in found if one is not None and one.guid != state.guid), None)

    def merged_into(self, user_id: str) -> list[StoredRecord]:
        """Return the users that were merged directly into a user."""
        self._records.flush()
        return list(stored_records(self._connection, MERGED_INTO, [user_id]))

    def belongings(self, user_id: str) -> list[StoredRecord]:
        """Return the records of a user in any kind: by owner, or in the scope of the user."""
        self._records.flush()
        return list(stored_records(self._connection, BELONGING, [user_id]))

    def states(self, place: StoredRecord) -> list[State]:
        """Return the current state of a user and all earlier ones."""
        whole = place.whole
        versions = self._records.versions.of(place.guid, whole.content, whole.number)
        return [whole, *(version.state for version in versions)]

    def turns(self, word: str) -> Iterator[tuple[str, str, str, str]]:
        """Yield (guid, content, source, data) of turns and steps that may quote a word."""
        self._records.flush()
        yield from self._connection.execute(TURNS, (word,))

    def all_facts(self) -> Iterator[tuple[str, str, str]]:
        """Yield (guid, content, data) of the facts of all scopes, also of earlier states."""
        self._records.flush()
        yield from self._connection.execute(FACTS)

    def executions(self, guids: list[str]) -> list[str]:
        """Return the executions of those records that are episodes."""
        self._records.flush()
        found = self._connection.execute(EXECUTIONS, (orjson.dumps(guids).decode(),))
        return [key for (key,) in found]

    def facts(self, user_id: str, limit: int) -> Iterator[tuple[Record, Further]]:
        """Yield the facts of a user, the most used first."""
        self._records.flush()
        values = [f"user:{user_id}", self._records.versions.now_ms, limit]
        found: Iterable[StoredRecord] = stored_records(self._connection, MOST_USED_FACTS, values)
        return ((place.whole.record, place.whole.further) for place in found)
