"""A store that an operation or block reads next to its own. Writes through it fail."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, cast

from memrelay.memory.engine.table import StoreTable
from memrelay.memory.errors import StoreReadOnly

if TYPE_CHECKING:
    from memrelay.memory.engine.store import Store

# What readers use of each part of a store. Parts without names here are only read anyway.
READS: Mapping[str, Collection[str]] = {
    "": ("memory_id", "path", "meaning", "ranker", "bounded_search", "time_limit"),
    "records": (
        "at_rows",
        "by_guid",
        "count",
        "count_matches",
        "extras",
        "has_agent_memory",
        "last_row",
        "latest",
        "oldest",
        "page",
        "placed",
        "search",
        "select",
    ),
    "records.versions": ("count", "count_of", "deleted", "now_ms", "of", "page"),
}


def read_only(store: "Store") -> "Store":
    """Return a view of an open store for reads. Any other use raises StoreReadOnly."""
    return cast("Store", _View(store, "", store.memory_id))


class _View:
    """A store or one of its tables, reduced to what readers use."""

    def __init__(
        self, target: Any, part: str, memory_id: str, names: Collection[str] | None = None
    ) -> None:
        self._target, self._part, self._memory_id = target, part, memory_id
        self._names = READS[part] if names is None else names

    def _table(self, cls: type[StoreTable]) -> Any:
        return _View(self._target.table(cls), cls.__name__, self._memory_id, cls.READS)

    def __getattr__(self, name: str) -> Any:
        if name in self._names:
            return getattr(self._target, name)
        if name == "table" and not self._part:
            return self._table
        part = f"{self._part}.{name}".lstrip(".")
        if part in READS:
            return _View(getattr(self._target, name), part, self._memory_id)
        raise StoreReadOnly(
            f"`{part}` of the store {self._memory_id} cannot be used here, because the store is "
            "open only for reads; write to the operation's own store, or call another operation"
        )
