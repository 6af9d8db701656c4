"""The items of LangGraph stores: look-ups by the index `langgraph_items`, scopes, and access times.

An item is a record of kind `memory.item`. Its scope is a namespace, with its labels joined by dots.
`data.value` has the value, and `data.ttl_m` the minutes from the last access to the expiry. The SQL
names the kind literally (migration 0025).
"""

from collections.abc import Iterable, Iterator
from typing import Annotated, NamedTuple

from pydantic import Field

from memrelay.memory.engine.conditions import UNEXPIRED, has_expired
from memrelay.memory.engine.feed import EXPIRED
from memrelay.memory.engine.table import StoreTable
from memrelay.memory.engine.versions import State, StoredRecord, stored_records
from memrelay.memory.records.kinds import LANGGRAPH_ITEM_KIND

# About 100 years.
MAX_TTL_M = 52_560_000
TtlMinutes = Annotated[float, Field(gt=0, le=MAX_TTL_M, allow_inf_nan=False)]
MS_PER_MINUTE = 60_000
# A label that any label matches.
ANY = "*"
SEPARATOR, AFTER_SEPARATOR = ".", "/"

BY_INDEX = " INDEXED BY langgraph_items WHERE r.kind = 'memory.item'"
AT_KEY = f"{BY_INDEX} AND r.scope = ? AND r.key = ?"
NEXT_SCOPE = f"SELECT min(r.scope) FROM records AS r{BY_INDEX} AND r.scope "
HAS_UNEXPIRED = (
    f"SELECT EXISTS (SELECT 1 FROM records AS r{BY_INDEX} AND r.scope = ? AND {UNEXPIRED})"
)
TOUCH = (
    "UPDATE records SET expires_at = "
    f"max(expires_at, ?1 + CAST(json_extract(data, '$.ttl_m') * {MS_PER_MINUTE} AS INTEGER)) "
    "WHERE guid = ?2 AND kind = 'memory.item' AND expires_at > ?1 "
    "AND json_extract(data, '$.ttl_m') IS NOT NULL"
)


class Pattern(NamedTuple):
    """Labels with which a scope begins and ends. ANY matches any label."""

    prefix: tuple[str, ...] = ()
    suffix: tuple[str, ...] = ()

    def matches(self, labels: tuple[str, ...]) -> bool:
        """Return whether a scope with these labels begins and ends as the pattern."""
        if len(labels) < max(len(self.prefix), len(self.suffix)):
            return False
        end = labels[len(labels) - len(self.suffix) :]
        pairs = (*zip(self.prefix, labels, strict=False), *zip(self.suffix, end, strict=True))
        return all(wanted in (ANY, label) for wanted, label in pairs)

    @property
    def fixed_prefix(self) -> str:
        """The scope that the labels before the first ANY name, "" if there are none."""
        fixed = self.prefix[: self.prefix.index(ANY)] if ANY in self.prefix else self.prefix
        return SEPARATOR.join(fixed)


class LanggraphItemTable(StoreTable):
    """Finds items by scope and key inside the store's open transaction. RecordTable writes them."""

    def at_keys(self, scope: str, keys: Iterable[str]) -> Iterator[StoredRecord]:
        """Yield the items with these keys that exist and have not expired."""
        self._records.flush()
        for key in keys:
            found = self._at_key(scope, key)
            if found is not None and not self._has_expired(found):
                yield found

    def to_write(self, scope: str, key: str) -> StoredRecord | None:
        """Return an item before a write, None if the key is free. An expired item is removed with
        its history, because its key is unique.
        """
        self._records.flush()
        found = self._at_key(scope, key)
        if found is None or not self._has_expired(found):
            return found
        self._records.remove(found, EXPIRED)
        self._records.versions.forget(found.guid)
        return None

    def holder(self, state: State) -> StoredRecord | None:
        """Return the other record that has the key of an item, None if it is free.

        An expired record with the key is removed with its history.
        """
        if state.kind != LANGGRAPH_ITEM_KIND or state.key is None:
            return None
        found = self.to_write(state.scope, state.key)
        return None if found is None or found.guid == state.guid else found

    def scopes(self, pattern: Pattern) -> Iterator[tuple[str, ...]]:
        """Yield the labels of each scope that has an item and matches."""
        self._records.flush()
        beginning = pattern.fixed_prefix
        found = self._connection.execute(f"{NEXT_SCOPE}>= ?", (beginning,)).get
        while found is not None and (not beginning or found < beginning + AFTER_SEPARATOR):
            labels = tuple(found.split(SEPARATOR))
            if pattern.matches(labels) and self._has_unexpired(found):
                yield labels
            found = self._connection.execute(f"{NEXT_SCOPE}> ?", (found,)).get

    def touch(self, guids: Iterable[str]) -> int:
        """Restart the time to live of items, and return the number of items that have one.

        Their versions and their history stay the same.
        """
        self._records.flush()
        before = self._connection.total_changes()
        now_ms = self._records.versions.now_ms
        self._connection.executemany(TOUCH, [(now_ms, guid) for guid in guids])
        return self._connection.total_changes() - before

    def _at_key(self, scope: str, key: str) -> StoredRecord | None:
        return next(stored_records(self._connection, AT_KEY, [scope, key]), None)

    def _has_expired(self, place: StoredRecord) -> bool:
        return has_expired(place.whole.expires_at, self._records.versions.now_ms)

    def _has_unexpired(self, scope: str) -> bool:
        if not self._records.expiry.concerns:
            return True
        values = (scope, self._records.versions.now_ms)
        return bool(self._connection.execute(HAS_UNEXPIRED, values).get)


def expiry_of(ttl: float | None, now_ms: int) -> int | None:
    """Return when an item with that time to live, in minutes, expires, Unix ms. None for never."""
    return None if ttl is None else now_ms + max(int(ttl * MS_PER_MINUTE), 1)
