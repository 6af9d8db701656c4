"""The items of shared stores by their keys: look-ups and pages by the index `store_items`.

The SQL names the kind literally and repeats the expression of the index (migration 0016).
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
NEXT_NAMESPACE = (
    f"SELECT {NAMESPACE} FROM records AS r{BY_INDEX} AND {NAMESPACE} > ? "
    f"ORDER BY {NAMESPACE} LIMIT 1"
)
HAS_DEFAULT_NAMESPACE = f"SELECT EXISTS (SELECT 1 FROM records AS r{BY_INDEX} AND {NAMESPACE} = '')"
SELECT_PAGE = f"SELECT {COLUMNS} FROM records AS r{BY_INDEX} AND {NAMESPACE} = ?"
IN_ORDER = " ORDER BY r.key, r.owner LIMIT ?"
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
        """Yield up to `limit` entries of each namespace, in the order of key, owner and namespace,
        after the position `beyond`. Expired entries are skipped.
        """
        self._records.flush()
        given = listing.namespace
        names = self._namespaces(listing.store) if given is None else [given]
        pages = [self._page_of(listing, name, beyond, limit) for name in names]
        return pages[0] if len(pages) == 1 else merge(*pages, key=page_order)

    def _page_of(
        self, listing: Listing, namespace: str, beyond: Position | None, limit: int
    ) -> Iterator[ItemRow]:
        store, _, prefix, in_context = listing
        clauses, bounds = _bounds(prefix, beyond, namespace)
        values: list[Any] = [*bounds]
        if self._records.expiry.concerns:
            clauses, values = f"{clauses} AND {UNEXPIRED}", [*values, self._records.versions.now_ms]
        found = self._connection.execute(
            f"{SELECT_PAGE}{clauses} AND r.in_context = {in_context:d}{IN_ORDER}",
            (store, namespace, *values, limit),
        )
        return (ItemRow(store, namespace, *row) for row in found)

    def _namespaces(self, store: str) -> list[str]:
        """Return the namespaces of a store, with one look-up for each."""
        names = [""] if self._connection.execute(HAS_DEFAULT_NAMESPACE, (store,)).get else []
        last = ""
        while (last := self._connection.execute(NEXT_NAMESPACE, (store, last)).get) is not None:
            names.append(last)
        return names

    def _own(self, address: Address, owner: str) -> StoredRecord | None:
        # Buffered items are inserted together, which is faster.
        if address.key in self._records.buffered_keys:
            self._records.flush()
        return next(stored_records(self._connection, OWN, [*address, owner]), None)

    def _has_expired(self, place: StoredRecord) -> bool:
        return has_expired(place.whole.expires_at, self._records.versions.now_ms)


def _bounds(prefix: str, beyond: Position | None, namespace: str) -> tuple[str, list[str]]:
    """Return conditions that select a range of keys, with their values."""
    clauses, values = "", []
    if beyond is not None:
        sign = ">" if namespace <= beyond.namespace else ">="
        clauses, values = f" AND (r.key, r.owner) {sign} (?, ?)", [beyond.key, beyond.owner]
    elif prefix:
        clauses, values = " AND r.key >= ?", [prefix]
    if end := end_of_prefix(prefix):
        clauses, values = f"{clauses} AND r.key < ?", [*values, end]
    return clauses, values


def end_of_prefix(prefix: str) -> str:
    """Return the first text after all texts with that prefix, "" if there is none."""
    prefix = prefix.rstrip(LAST_CHARACTER)
    if not prefix:
        return ""
    following = ord(prefix[-1]) + 1
    return prefix[:-1] + chr(SURROGATES.stop if following in SURROGATES else following)
