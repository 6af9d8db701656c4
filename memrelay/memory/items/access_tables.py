"""The tables that decide about access to stores of items: grants, contexts and agent settings.

They have no cache, because a change takes effect with the next call.
"""

from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar

import apsw

Row = TypeVar("Row", bound=tuple[object, ...])
UNEXPIRED = "(expires_at IS NULL OR expires_at > ?)"
# Without the name of the index, SQLite reads all grants to the store.
GIVEN_BY = "SELECT * FROM grants INDEXED BY grants_granter WHERE store = ? AND granted_by = ?"
LAST_END = "SELECT max(expires_at) FROM contexts WHERE id = ? AND sort = ? AND expires_at > ?"
# Expired rows are deleted with the next row of the same agent, at most so many at once.
MAX_CLEARED = 100


class Grant(NamedTuple):
    """A level of access to a store that an agent has. Times are Unix ms."""

    store: str
    grantee: str
    level: str
    granted_by: str
    expires_at: int | None
    created_at: int


class Participation(NamedTuple):
    """An agent that takes part in a chat, or works for a user. `sort` is "chat" or "user"."""

    id: str
    sort: str
    agent: str
    # Unix ms, None for until it is closed.
    expires_at: int | None


class AgentSettings(NamedTuple):
    """Whether an agent has memory, and which classes of stores it may use."""

    agent: str
    enabled: bool = True
    own: bool = True
    chat: bool = True
    user: bool = True


class _Table(Generic[Row]):
    """A table whose rows have the fields of a named tuple, in this order."""

    def __init__(self, connection: apsw.Connection, name: str, row: type[Row], width: int) -> None:
        self._connection, self._name, self._row = connection, name, row
        self._insert = f"INSERT OR REPLACE INTO {name} VALUES ({', '.join('?' * width)})"

    def put(self, row: Row) -> None:
        """Insert a row, or replace the one with the same key."""
        self._connection.execute(self._insert, row)

    def _find(self, condition: str, *values: object) -> Iterator[Row]:
        found = self._connection.execute(f"SELECT * FROM {self._name} WHERE {condition}", values)
        return (self._row(*row) for row in found)

    def _delete(self, condition: str, *values: object) -> None:
        self._connection.execute(f"DELETE FROM {self._name} WHERE {condition}", values)


class GrantTable(_Table[Grant]):
    """Reads and writes grants inside the store's open transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        super().__init__(connection, "grants", Grant, len(Grant._fields))

    def find(self, store: str, grantee: str) -> Grant | None:
        """Return the grant, also an expired one, None if there is none."""
        return next(self._find("store = ? AND grantee = ?", store, grantee), None)

    def remove(self, store: str, grantee: str) -> None:
        """Delete a grant."""
        self._delete("store = ? AND grantee = ?", store, grantee)

    def of_grantee(self, grantee: str, now_ms: int, after: str, limit: int) -> list[Grant]:
        """Return grants in force that an agent has, by store after that one; -1 for no limit."""
        found = self._find(
            f"grantee = ? AND store > ? AND {UNEXPIRED} ORDER BY store LIMIT ?",
            grantee,
            after,
            now_ms,
            limit,
        )
        return list(found)

    def page(self, store: str, now_ms: int, after: str, limit: int) -> list[Grant]:
        """Return grants in force to a store, by grantee after that one."""
        found = self._find(
            f"store = ? AND grantee > ? AND {UNEXPIRED} ORDER BY grantee LIMIT ?",
            store,
            after,
            now_ms,
            limit,
        )
        return list(found)

    def given_by(self, granter: str, store: str) -> list[Grant]:
        """Return all grants to a store that an agent gave."""
        found = self._connection.execute(GIVEN_BY, (store, granter))
        return [Grant(*row) for row in found]

    def clear_expired(self, grantee: str, now_ms: int) -> None:
        """Delete some expired grants of an agent."""
        self._delete(
            "(store, grantee) IN (SELECT store, grantee FROM grants WHERE grantee = ? "
            "AND expires_at <= ? LIMIT ?)",
            grantee,
            now_ms,
            MAX_CLEARED,
        )


class ContextTable(_Table[Participation]):
    """Reads and writes contexts inside the store's open transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        super().__init__(connection, "contexts", Participation, len(Participation._fields))

    def find(self, ident: str, agent: str) -> Participation | None:
        """Return the row of an agent, also an expired one, None if there is none."""
        return next(self._find("id = ? AND agent = ?", ident, agent), None)

    def remove(self, ident: str, agent: str) -> None:
        """Delete the row of an agent."""
        self._delete("id = ? AND agent = ?", ident, agent)

    def of_agent(self, agent: str, now_ms: int, after: str, limit: int) -> list[Participation]:
        """Return present contexts of an agent, by id after that one; -1 for no limit."""
        found = self._find(
            f"agent = ? AND id > ? AND {UNEXPIRED} ORDER BY id LIMIT ?",
            agent,
            after,
            now_ms,
            limit,
        )
        return list(found)

    def last_end(self, ident: str, sort: str, now_ms: int) -> int | None:
        """Return the last end of the present contexts of a chat or user, None for none."""
        found = self._connection.execute(LAST_END, (ident, sort, now_ms)).get
        return None if found is None else int(found)

    def page(
        self, wanted: dict[str, str], now_ms: int, after: tuple[str, str], limit: int
    ) -> list[Participation]:
        """Return present contexts with these values of columns, by (id, agent) after that one."""
        equal = "".join(f"{column} = ? AND " for column in wanted)
        found = self._find(
            f"{equal}(id, agent) > (?, ?) AND {UNEXPIRED} ORDER BY id, agent LIMIT ?",
            *wanted.values(),
            *after,
            now_ms,
            limit,
        )
        return list(found)

    def clear_expired(self, agent: str, now_ms: int) -> None:
        """Delete some expired contexts of an agent."""
        self._delete(
            "(id, agent) IN (SELECT id, agent FROM contexts WHERE agent = ? "
            "AND expires_at <= ? LIMIT ?)",
            agent,
            now_ms,
            MAX_CLEARED,
        )


# Each access reads the settings, so the statement is fixed.
FIND_SETTINGS = "SELECT enabled, self, chat, user FROM agent_settings WHERE agent = ?"


class AgentSettingsTable(_Table[AgentSettings]):
    """Reads and writes the settings of agents inside the store's open transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        super().__init__(connection, "agent_settings", AgentSettings, len(AgentSettings._fields))

    def find(self, agent: str) -> AgentSettings:
        """Return the settings of an agent. By default, everything is on."""
        found = self._connection.execute(FIND_SETTINGS, (agent,)).fetchone()
        return AgentSettings(agent, *map(bool, found)) if found else AgentSettings(agent)
