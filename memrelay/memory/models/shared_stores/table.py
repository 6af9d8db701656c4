"""The items of shared stores by their keys, grants, contexts, and the settings of agents.

The SQL names the kind literally and repeats the expressions of the indexes (migrations 0016, 0021).
"""

from collections.abc import Iterator
from contextlib import closing
from heapq import merge
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import apsw
import orjson

from memrelay.memory.engine.connection import open_store_file, translate_errors
from memrelay.memory.engine.filter_sql import UNEXPIRED
from memrelay.memory.engine.keyed_table import KeyedTable
from memrelay.memory.engine.store import Store
from memrelay.memory.engine.table import ChangeHook, StoreTable
from memrelay.memory.engine.versions import State, StoredRecord, stored_records
from memrelay.memory.models.shared_stores import ITEM_KIND
from memrelay.memory.models.shared_stores.item import (
    COLUMNS,
    Address,
    ItemRow,
    format_version,
    read_namespace,
)

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


class ItemTable(KeyedTable):
    """Finds and writes items inside the store's open transaction.

    The values of a key are store, namespace, key and owner.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(store, ITEM_KIND, "store_items")
        # The counts do not know rows that were buffered before.
        store.records.flush()
        self._counts = KeyCounts(store.connection)
        store.records.hooks[ITEM_KIND] = self._counts

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
        entries = stored_records(self._connection, which + ORDER_BY_PREFERENCE, [*values, agent])
        return next(entries, None)

    def key_values(self, state: State, key: str) -> tuple[str, ...]:
        """Return the values that `find` takes for a record with that key."""
        namespace = read_namespace(state.data, state.guid)
        return state.scope, namespace, key, state.owner or ""

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
            return self._read_page(listing, listing.namespace, beyond, limit)
        pages = (
            self._read_page(listing, "", beyond, limit),
            self._named_page(listing, beyond, limit),
        )
        return merge(*pages, key=page_order)

    def sizes(self, store: str, prefix: str) -> Iterator[ItemSize]:
        """Yield the sizes of visible entries of the default namespace, by key and owner."""
        self._records.flush()
        clauses, values = _prefix_bounds(prefix)
        shown, times = self._shown(Listing(store))
        rows = self._connection.execute(
            f"{SELECT_SIZES}{BY_INDEX} AND {NAMESPACE} = ''{clauses}{shown}{BY_KEY}",
            (store, *values, *times),
        )
        return map(ItemSize._make, rows)

    def _read_page(
        self, listing: Listing, namespace: str, beyond: Position | None, limit: int
    ) -> Iterator[ItemRow]:
        """Yield up to `limit` entries of one namespace."""
        clauses, values = _bounds(listing.prefix, beyond, namespace)
        shown, times = self._shown(listing)
        rows = self._connection.execute(
            f"{SELECT_PAGE}{clauses}{shown}{IN_ORDER}",
            (listing.store, namespace, *values, *times, limit),
        )
        return (ItemRow(listing.store, namespace, *row) for row in rows)

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

    def _find(self, *key: str) -> StoredRecord | None:
        # Buffered items are inserted together, which is faster.
        if key[2] in self._counts.buffered:
            self._records.flush()
        return next(stored_records(self._connection, OWN, list(key)), None)


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


LAST_CHARACTER, SURROGATES = "\U0010ffff", range(0xD800, 0xE000)


def end_of_prefix(prefix: str) -> str:
    """Return the first text after all texts with that prefix, "" if there is none."""
    prefix = prefix.rstrip(LAST_CHARACTER)
    if not prefix:
        return ""
    following = ord(prefix[-1]) + 1
    return prefix[:-1] + chr(SURROGATES.stop if following in SURROGATES else following)


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
        """Count so many items more in a store, if its count is known."""
        if store in self._counts:
            self._counts[store] += change


SELECT = (
    "SELECT scope, owner, key, data, updated_at, crc FROM records "
    "WHERE kind = 'store.item' AND in_context = 0 AND encrypted = 0 "
    "AND ifnull(expires_at > ?, 1) ORDER BY row"
)


class InternalEntry(NamedTuple):
    """An internal entry and its value as stored."""

    store: str
    owner: str
    namespace: str
    key: str
    value: Any
    version: str


def list_internal_entries(path: Path, now_ms: int) -> Iterator[InternalEntry]:
    """Yield the unexpired internal entries in a copy that no other program uses.

    Entries that the client encrypted are left out.
    """
    with translate_errors(str(path)), closing(open_store_file(path)) as connection:
        for store, owner, key, data, updated_at, crc in connection.execute(SELECT, (now_ms,)):
            stored = orjson.loads(data or "{}")
            version = format_version(updated_at, crc)
            namespace, value = stored.get("namespace", ""), stored.get("value")
            yield InternalEntry(store, owner, namespace, key, value, version)


UNEXPIRED_RIGHT = "(expires_at IS NULL OR expires_at > ?)"
# Without the name of the index, SQLite reads all grants to the store.
GIVEN_BY = "SELECT * FROM grants INDEXED BY grants_granter WHERE store = ? AND granted_by = ?"
LAST_END = "SELECT max(expires_at) FROM contexts WHERE id = ? AND sort = ? AND expires_at > ?"
# Expired rows are deleted with the next row of the same agent, at most so many at once.
MAX_CLEARED = 100
# Each access reads the settings, so the statement is fixed.
FIND_SETTINGS = "SELECT enabled, self, chat, user FROM agent_settings WHERE agent = ?"
Row = TypeVar("Row", bound=tuple[object, ...])


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

    NAME: ClassVar[str]
    ROW: ClassVar[Any]

    def put(self, row: Row) -> None:
        """Insert a row, or replace the one with the same key."""
        marks = ", ".join("?" * len(row))
        self._connection.execute(f"INSERT OR REPLACE INTO {self.NAME} VALUES ({marks})", row)

    def _find(self, condition: str, *values: object) -> Iterator[Row]:
        rows = self._connection.execute(f"SELECT * FROM {self.NAME} WHERE {condition}", values)
        return (self.ROW(*row) for row in rows)


class _AccessTable(_Table[Row]):
    """A table whose rows give an agent access to a store, both of which are the key."""

    # The columns of the store and of the agent.
    KEY: ClassVar[tuple[str, str]]

    def find(self, store: str, agent: str) -> Row | None:
        """Return the row of an agent, also an expired one, None if there is none."""
        return next(self._find("{} = ? AND {} = ?".format(*self.KEY), store, agent), None)

    def remove(self, store: str, agent: str) -> None:
        """Delete the row of an agent."""
        condition = "{} = ? AND {} = ?".format(*self.KEY)
        self._connection.execute(f"DELETE FROM {self.NAME} WHERE {condition}", (store, agent))

    def of_agent(self, agent: str, now_ms: int, after: str, limit: int) -> list[Row]:
        """Return unexpired rows of an agent, by store after that one; -1 for no limit."""
        store_column, agent_column = self.KEY
        rows = self._find(
            f"{agent_column} = ? AND {store_column} > ? AND {UNEXPIRED_RIGHT} "
            f"ORDER BY {store_column} LIMIT ?",
            *(agent, after, now_ms, limit),
        )
        return list(rows)

    def clear_expired(self, agent: str, now_ms: int) -> None:
        """Delete some expired rows of an agent."""
        key = ", ".join(self.KEY)
        self._connection.execute(
            f"DELETE FROM {self.NAME} WHERE ({key}) IN (SELECT {key} FROM {self.NAME} "
            f"WHERE {self.KEY[1]} = ? AND expires_at <= ? LIMIT ?)",
            (agent, now_ms, MAX_CLEARED),
        )


class GrantTable(_AccessTable[Grant]):
    """Reads and writes grants inside the store's open transaction."""

    NAME, ROW, KEY = "grants", Grant, ("store", "grantee")

    def page(self, store: str, now_ms: int, after: str, limit: int) -> list[Grant]:
        """Return grants in force to a store, by grantee after that one."""
        rows = self._find(
            f"store = ? AND grantee > ? AND {UNEXPIRED_RIGHT} ORDER BY grantee LIMIT ?",
            *(store, after, now_ms, limit),
        )
        return list(rows)

    def given_by(self, granter: str, store: str) -> list[Grant]:
        """Return all grants to a store that an agent gave."""
        rows = self._connection.execute(GIVEN_BY, (store, granter))
        return [Grant(*row) for row in rows]


class ContextTable(_AccessTable[Participation]):
    """Reads and writes contexts inside the store's open transaction."""

    NAME, ROW, KEY = "contexts", Participation, ("id", "agent")

    def last_end(self, ident: str, sort: str, now_ms: int) -> int | None:
        """Return the last end of the present contexts of a chat or user, None for none."""
        end = self._connection.execute(LAST_END, (ident, sort, now_ms)).get
        return None if end is None else int(end)

    def page(
        self, columns: dict[str, str], now_ms: int, after: tuple[str, str], limit: int
    ) -> list[Participation]:
        """Return present contexts with these values of columns, by (id, agent) after that one."""
        equal = "".join(f"{column} = ? AND " for column in columns)
        rows = self._find(
            f"{equal}(id, agent) > (?, ?) AND {UNEXPIRED_RIGHT} ORDER BY id, agent LIMIT ?",
            *(*columns.values(), *after, now_ms, limit),
        )
        return list(rows)


class AgentSettingsTable(_Table[AgentSettings]):
    """Reads and writes the settings of agents inside the store's open transaction."""

    NAME, ROW = "agent_settings", AgentSettings

    def find(self, agent: str) -> AgentSettings:
        """Return the settings of an agent. By default, everything is on."""
        row = self._connection.execute(FIND_SETTINGS, (agent,)).fetchone()
        return AgentSettings(agent, *map(bool, row)) if row else AgentSettings(agent)
