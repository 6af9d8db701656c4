"""The items of LangGraph stores: look-ups by the index `langgraph_items`, scopes, and access times.

An item is a record of kind `memory.item`. Its scope is a namespace, with its labels joined by dots.
`data.value` has the value, and `data.ttl_m` the minutes from the last access to the expiry. The SQL
names the kind literally (migration 0025).
"""

from collections.abc import Iterable, Iterator
from typing import Annotated, NamedTuple

from pydantic import Field

from memrelay.memory.engine.filter_sql import UNEXPIRED
from memrelay.memory.engine.keyed_table import KeyedTable
from memrelay.memory.engine.store import Store
from memrelay.memory.engine.versions import StoredRecord
from memrelay.memory.models.langgraph import LANGGRAPH_ITEM_KIND
from memrelay.memory.records.data import LARGEST

# About 100 years.
MAX_TTL_M = 52_560_000
TtlMinutes = Annotated[float, Field(gt=0, le=MAX_TTL_M, allow_inf_nan=False)]
MS_PER_MINUTE = 60_000
# A label that any label matches.
ANY = "*"
SEPARATOR, AFTER_SEPARATOR = ".", "/"

BY_INDEX = " INDEXED BY langgraph_items WHERE r.kind = 'memory.item'"
NEXT_SCOPE = f"SELECT min(r.scope) FROM records AS r{BY_INDEX} AND r.scope "
HAS_UNEXPIRED = (
    f"SELECT EXISTS (SELECT 1 FROM records AS r{BY_INDEX} AND r.scope = ? AND {UNEXPIRED})"
)
TOUCH = (
    "UPDATE records SET expires_at = "
    "max(expires_at, "
    f"min(?3, ?1 + CAST(json_extract(data, '$.ttl_m') * {MS_PER_MINUTE} AS INTEGER))) "
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
        return all(pattern in (ANY, label) for pattern, label in pairs)

    @property
    def fixed_prefix(self) -> str:
        """The scope that the labels before the first ANY name, "" if there are none."""
        fixed = self.prefix[: self.prefix.index(ANY)] if ANY in self.prefix else self.prefix
        return SEPARATOR.join(fixed)


class LanggraphItemTable(KeyedTable):
    """Finds items by scope and key inside the store's open transaction. RecordTable writes them."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, LANGGRAPH_ITEM_KIND, "langgraph_items")

    def at_keys(self, scope: str, keys: Iterable[str]) -> Iterator[StoredRecord]:
        """Yield the items with these keys that exist and have not expired."""
        return (stored for key in keys if (stored := self.find(scope, key)) is not None)

    def scopes(self, pattern: Pattern) -> Iterator[tuple[str, ...]]:
        """Yield the labels of each scope that has an item and matches."""
        self._records.flush()
        beginning = pattern.fixed_prefix
        scope = self._connection.execute(f"{NEXT_SCOPE}>= ?", (beginning,)).get
        while scope is not None and (not beginning or scope < beginning + AFTER_SEPARATOR):
            labels = tuple(scope.split(SEPARATOR))
            if pattern.matches(labels) and self._has_unexpired(scope):
                yield labels
            scope = self._connection.execute(f"{NEXT_SCOPE}> ?", (scope,)).get

    def touch(self, guids: Iterable[str]) -> int:
        """Restart the time to live of items, and return the number of items that have one.

        Their versions and their history stay the same.
        """
        self._records.flush()
        before = self._connection.total_changes()
        now_ms = self._records.versions.now_ms
        self._connection.executemany(
            TOUCH, [(now_ms, guid, self._bound_expiry(guid)) for guid in guids]
        )
        return self._connection.total_changes() - before

    def _bound_expiry(self, guid: str) -> int:
        """Return the latest time at which an item may expire, by the features of the store."""
        hooks = self._records.path.bound_expiry
        stored = self._records.by_guid(guid) if hooks else None
        if stored is None:
            return LARGEST
        bounds = [hook(stored.state) for hook in hooks]
        return min((one for one in bounds if one is not None), default=LARGEST)

    def _has_unexpired(self, scope: str) -> bool:
        if not self._records.expiry.concerns:
            return True
        values = (scope, self._records.versions.now_ms)
        return bool(self._connection.execute(HAS_UNEXPIRED, values).get)


def compute_expiry(ttl: float | None, now_ms: int) -> int | None:
    """Return when an item with that time to live, in minutes, expires, Unix ms. None for never."""
    return None if ttl is None else now_ms + max(int(ttl * MS_PER_MINUTE), 1)
