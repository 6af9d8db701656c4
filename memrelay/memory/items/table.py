"""The items of shared stores by their keys: look-ups and pages by their indexes.

The SQL names the kind literally and repeats the expressions of the indexes (migrations 0016, 0021).
"""

from collections.abc import Iterator
from heapq import merge
from operator import attrgetter
from typing import Any, NamedTuple

import apsw

from memrelay.memory.feed import EXPIRED
from memrelay.memory.items.item import COLUMNS, Address, ItemRow, namespace_of
from memrelay.memory.records.kinds import ITEM_KIND
from memrelay.memory.sqlite.filters import UNEXPIRED, has_expired
from memrelay.memory.sqlite.records import RecordTable
from memrelay.memory.sqlite.versions import State, StoredRecord, stored_records
from memrelay.memory.timestamps import next_change_ms

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
LAST_CHARACTER, SURROGATES = "\U0010ffff", range(0xD800, 0xE000)
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


class ItemTable:
    """Finds items by key inside the store's open transaction. RecordTable writes them."""

    def __init__(self, connection: apsw.Connection, records: RecordTable) -> None:
        self._connection, self._records = connection, records

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
        if not self._records.key_counts.knows(store):
            self._records.flush()
        return self._records.key_counts.of(store)

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
        if address.key in self._records.buffered_keys:
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
