"""The items of shared stores by their keys: look-ups and pages by their indexes.

The SQL names the kind literally and repeats the expressions of the indexes (migrations 0016, 0021).
"""

from collections.abc import Iterator
from heapq import merge
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar

from memrelay.memory.engine.conditions import UNEXPIRED, has_expired
from memrelay.memory.engine.feed import EXPIRED
from memrelay.memory.engine.store import Store
from memrelay.memory.engine.table import StoreTable
from memrelay.memory.engine.timestamps import next_change_ms
from memrelay.memory.engine.versions import State, StoredRecord, stored_records
from memrelay.memory.models.shared_stores.item import COLUMNS, Address, ItemRow, namespace_of
from memrelay.memory.models.shared_stores.key_counts import KeyCounts
from memrelay.memory.records.kinds import ITEM_KIND

NAMESPACE = "ifnull(json_extract(r.data,'$.namespace'),'')"
BY_INDEX = " INDEXED BY store_items WHERE r.kind = 'store.item' AND r.scope = ?"
AT_KEY = f"{BY_INDEX} AND {NAMESPACE} = ? AND r.key = ?"
OWN = f"{AT_KEY} AND r.owner = ?"
# The agent's own entry, then the newest.
ORDER_BY_PREFERENCE = " ORDER BY r.owner = ? DESC, r.updated_at DESC, r.row DESC LIMIT 1"
SELECT_PAGE = f"SELECT {COLUMNS} FROM records AS r{BY_INDEX} AND {NAMESPACE} = ?"
# Bytes of a value as text. SQLite reads the length of a column without its text.
SIZE = (
    "CASE WHEN r.encrypted = 0 THEN octet_length(r.content) "
    "WHEN json_type(r.data,'$.value') = 'text' THEN octet_length(json_extract(r.data,'$.value')) "
    "ELSE octet_length(r.data -> '$.value') END"
)
SELECT_SIZES = f"SELECT r.key, r.owner, {SIZE}, r.encrypted, r.updated_at FROM records AS r"
BY_KEY = " ORDER BY r.key, r.owner"
IN_ORDER = f"{BY_KEY} LIMIT ?"
# Entries with a namespace, in the order of the index `store_items_by_key` (migration 0021).
GIVEN_NAMESPACE = "json_extract(r.data,'$.namespace')"
SELECT_NAMED_PAGE = (
    f"SELECT {GIVEN_NAMESPACE}, {COLUMNS} FROM records AS r INDEXED BY store_items_by_key "
    f"WHERE r.kind = 'store.item' AND r.scope = ? AND {GIVEN_NAMESPACE} <> ''"
)
IN_NAMED_ORDER = f" ORDER BY r.key, r.owner, {GIVEN_NAMESPACE} LIMIT ?"
HAS_SEALED = (
    "SELECT EXISTS (SELECT 1 FROM records WHERE kind = 'store.item' AND in_context = 0 "
    "AND encrypted = 0 AND json_extract(data, '$.value') GLOB 'v1.????????????????.*.*')"
)
page_order = attrgetter("key", "owner", "namespace")
Row = TypeVar("Row", bound=tuple[object, ...])
UNEXPIRED_RIGHT = "(expires_at IS NULL OR expires_at > ?)"
# Without the name of the index, SQLite reads all grants to the store.
GIVEN_BY = "SELECT * FROM grants INDEXED BY grants_granter WHERE store = ? AND granted_by = ?"
LAST_END = "SELECT max(expires_at) FROM contexts WHERE id = ? AND sort = ? AND expires_at > ?"
# Expired rows are deleted with the next row of the same agent, at most so many at once.
MAX_CLEARED = 100
# Each access reads the settings, so the statement is fixed.
FIND_SETTINGS = "SELECT enabled, self, chat, user FROM agent_settings WHERE agent = ?"


LAST_CHARACTER, SURROGATES = "\U0010ffff", range(0xD800, 0xE000)


class Listing(NamedTuple):
    """The entries to list."""

    store: str
    # None for all namespaces.
    namespace: str | None = None
    # The beginning of their keys.
    prefix: str = ""
    # Visible or internal entries.
    in_context: bool = True


class ItemSize(NamedTuple):
    """The size of an entry, and what decides about it."""

    key: str
    owner: str
    # Bytes of the value as text.
    size: int
    encrypted: int
    # Unix ms.
    updated_at: int


class Position(NamedTuple):
    """The place of an entry in a page's order."""

    key: str
    owner: str
    namespace: str


class ItemTable(StoreTable):
    """Finds items by key inside the store's open transaction. RecordTable writes them."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        # The counts do not know rows that were buffered before.
        store.records.flush()
        self._counts = KeyCounts(store.connection)
        store.records.hooks[ITEM_KIND] = self._counts

    def own(self, address: Address, owner: str) -> StoredRecord | None:
        """Return the entry of that owner, None if there is none or it has expired."""
        found = self._own(address, owner)
        return None if found is None or self._has_expired(found) else found

    def own_to_write(self, address: Address, owner: str) -> StoredRecord | None:
        """Return the entry of that owner before a write. An expired one is removed with its
        history, because its key is unique.
        """
        found = self._own(address, owner)
        if found is None or not self._has_expired(found):
            return found
        self._records.remove(found, EXPIRED)
        self._records.versions.forget(found.guid)
        return None

    def best(
        self, address: Address, agent: str, owner: str = "", *, internal: bool = True
    ) -> StoredRecord | None:
        """Return the agent's own entry, else the newest one; with `owner`, only that owner's.

        Without `internal`, internal entries do not exist.
        """
        self._records.flush()
        which = f"{AT_KEY} AND {UNEXPIRED}"
        values: list[Any] = [*address, self._records.versions.now_ms]
        if owner:
            which, values = f"{which} AND r.owner = ?", [*values, owner]
        if not internal:
            which += " AND r.in_context = 1"
        found = stored_records(self._connection, which + ORDER_BY_PREFERENCE, [*values, agent])
        return next(found, None)

    def holder(self, state: State) -> StoredRecord | None:
        """Return the other record that has the key of an item, None if it is free.

        An expired record with the key is removed with its history.
        """
        if state.kind != ITEM_KIND or state.key is None or state.owner is None:
            return None
        address = Address(state.scope, namespace_of(state.data, state.guid), state.key)
        found = self.own_to_write(address, state.owner)
        return None if found is None or found.guid == state.guid else found

    def insert(self, new: State) -> State:
        """Insert an entry whose key is free, and return it as stored."""
        return self._records.insert_whole(new)

    def change(self, place: StoredRecord, after: State) -> State:
        """Change an entry, keep the earlier version, and return it as stored."""
        updated_at = next_change_ms(self._records.versions.now_ms, place.whole.updated_at)
        return self._records.overwrite(place, after._replace(updated_at=updated_at))

    def count(self, store: str) -> int:
        """Return the number of entries in a store, including expired ones."""
        if not self._counts.knows(store):
            self._records.flush()
        return self._counts.of(store)

    def has_sealed(self) -> bool:
        """Return whether an interface sealed a value of the file. Reads all internal entries."""
        self._records.flush()
        return bool(next(self._connection.execute(HAS_SEALED))[0])

    def page(self, listing: Listing, beyond: Position | None, limit: int) -> Iterator[ItemRow]:
        """Yield entries in the order of key, owner and namespace, after the position `beyond`.

        There are at least `limit` of them if the store has so many. Expired entries are skipped.
        """
        self._records.flush()
        if listing.namespace is not None:
            return self._page_of(listing, listing.namespace, beyond, limit)
        pages = self._page_of(listing, "", beyond, limit), self._named_page(listing, beyond, limit)
        return merge(*pages, key=page_order)

    def sizes(self, store: str, prefix: str) -> Iterator[ItemSize]:
        """Yield the sizes of visible entries of the default namespace, by key and owner."""
        self._records.flush()
        clauses, values = _prefix_bounds(prefix)
        shown, times = self._shown(Listing(store))
        found = self._connection.execute(
            f"{SELECT_SIZES}{BY_INDEX} AND {NAMESPACE} = ''{clauses}{shown}{BY_KEY}",
            (store, *values, *times),
        )
        return map(ItemSize._make, found)

    def _page_of(
        self, listing: Listing, namespace: str, beyond: Position | None, limit: int
    ) -> Iterator[ItemRow]:
        """Yield up to `limit` entries of one namespace."""
        clauses, values = _bounds(listing.prefix, beyond, namespace)
        shown, times = self._shown(listing)
        found = self._connection.execute(
            f"{SELECT_PAGE}{clauses}{shown}{IN_ORDER}",
            (listing.store, namespace, *values, *times, limit),
        )
        return (ItemRow(listing.store, namespace, *row) for row in found)

    def _named_page(
        self, listing: Listing, beyond: Position | None, limit: int
    ) -> Iterator[ItemRow]:
        """Yield up to `limit` entries of all namespaces except the default one."""
        clauses, values = _named_bounds(listing.prefix, beyond)
        shown, times = self._shown(listing)
        found = self._connection.execute(
            f"{SELECT_NAMED_PAGE}{clauses}{shown}{IN_NAMED_ORDER}",
            (listing.store, *values, *times, limit),
        )
        return (ItemRow(listing.store, *row) for row in found)

    def _shown(self, listing: Listing) -> tuple[str, list[int]]:
        """Return the conditions on the flag and the end of listed entries, with their values."""
        shown = f" AND r.in_context = {listing.in_context:d}"
        if not self._records.expiry.concerns:
            return shown, []
        return f"{shown} AND {UNEXPIRED}", [self._records.versions.now_ms]

    def _own(self, address: Address, owner: str) -> StoredRecord | None:
        # Buffered items are inserted together, which is faster.
        if address.key in self._counts.buffered:
            self._records.flush()
        return next(stored_records(self._connection, OWN, [*address, owner]), None)

    def _has_expired(self, place: StoredRecord) -> bool:
        return has_expired(place.whole.expires_at, self._records.versions.now_ms)


def _bounds(prefix: str, beyond: Position | None, namespace: str) -> tuple[str, list[str]]:
    """Return conditions that select a range of keys of a namespace, with their values."""
    if beyond is None:
        return _prefix_bounds(prefix)
    sign = ">" if namespace <= beyond.namespace else ">="
    clauses, values = _end_bound(prefix)
    return f" AND (r.key, r.owner) {sign} (?, ?){clauses}", [beyond.key, beyond.owner, *values]


def _named_bounds(prefix: str, beyond: Position | None) -> tuple[str, list[str]]:
    """Return conditions that select a range of keys of all namespaces, with their values."""
    if beyond is None:
        return _prefix_bounds(prefix)
    clauses, values = _end_bound(prefix)
    return f" AND (r.key, r.owner, {GIVEN_NAMESPACE}) > (?, ?, ?){clauses}", [*beyond, *values]


def _prefix_bounds(prefix: str) -> tuple[str, list[str]]:
    clauses, values = _end_bound(prefix)
    return (f" AND r.key >= ?{clauses}", [prefix, *values]) if prefix else ("", [])


def _end_bound(prefix: str) -> tuple[str, list[str]]:
    end = end_of_prefix(prefix)
    return (" AND r.key < ?", [end]) if end else ("", [])


def end_of_prefix(prefix: str) -> str:
    """Return the first text after all texts with that prefix, "" if there is none."""
    prefix = prefix.rstrip(LAST_CHARACTER)
    if not prefix:
        return ""
    following = ord(prefix[-1]) + 1
    return prefix[:-1] + chr(SURROGATES.stop if following in SURROGATES else following)


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


class _Table(StoreTable, Generic[Row]):
    """A table whose rows have the fields of a named tuple, in this order."""

    def __init__(self, store: Store, name: str, row: type[Row], width: int) -> None:
        super().__init__(store)
        self._name, self._row = name, row
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

    def __init__(self, store: Store) -> None:
        super().__init__(store, "grants", Grant, len(Grant._fields))

    def find(self, store: str, grantee: str) -> Grant | None:
        """Return the grant, also an expired one, None if there is none."""
        return next(self._find("store = ? AND grantee = ?", store, grantee), None)

    def remove(self, store: str, grantee: str) -> None:
        """Delete a grant."""
        self._delete("store = ? AND grantee = ?", store, grantee)

    def of_grantee(self, grantee: str, now_ms: int, after: str, limit: int) -> list[Grant]:
        """Return grants in force that an agent has, by store after that one; -1 for no limit."""
        found = self._find(
            f"grantee = ? AND store > ? AND {UNEXPIRED_RIGHT} ORDER BY store LIMIT ?",
            grantee,
            after,
            now_ms,
            limit,
        )
        return list(found)

    def page(self, store: str, now_ms: int, after: str, limit: int) -> list[Grant]:
        """Return grants in force to a store, by grantee after that one."""
        found = self._find(
            f"store = ? AND grantee > ? AND {UNEXPIRED_RIGHT} ORDER BY grantee LIMIT ?",
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

    def __init__(self, store: Store) -> None:
        super().__init__(store, "contexts", Participation, len(Participation._fields))

    def find(self, ident: str, agent: str) -> Participation | None:
        """Return the row of an agent, also an expired one, None if there is none."""
        return next(self._find("id = ? AND agent = ?", ident, agent), None)

    def remove(self, ident: str, agent: str) -> None:
        """Delete the row of an agent."""
        self._delete("id = ? AND agent = ?", ident, agent)

    def of_agent(self, agent: str, now_ms: int, after: str, limit: int) -> list[Participation]:
        """Return present contexts of an agent, by id after that one; -1 for no limit."""
        found = self._find(
            f"agent = ? AND id > ? AND {UNEXPIRED_RIGHT} ORDER BY id LIMIT ?",
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
            f"{equal}(id, agent) > (?, ?) AND {UNEXPIRED_RIGHT} ORDER BY id, agent LIMIT ?",
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


class AgentSettingsTable(_Table[AgentSettings]):
    """Reads and writes the settings of agents inside the store's open transaction."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, "agent_settings", AgentSettings, len(AgentSettings._fields))

    def find(self, agent: str) -> AgentSettings:
        """Return the settings of an agent. By default, everything is on."""
        found = self._connection.execute(FIND_SETTINGS, (agent,)).fetchone()
        return AgentSettings(agent, *map(bool, found)) if found else AgentSettings(agent)
