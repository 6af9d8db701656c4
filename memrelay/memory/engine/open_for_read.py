"""A store that an operation or block reads next to its own. Writes through it fail."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Never, Protocol, cast

from memrelay.memory.engine.table import StoreTable
from memrelay.memory.errors import StoreReadOnly

if TYPE_CHECKING:
    from memrelay.memory.engine.filter_sql import Filters
    from memrelay.memory.engine.records import RecordTable
    from memrelay.memory.engine.store import Store
    from memrelay.memory.engine.versions import StoredRecord

    class ReadOnlyRecords(RecordTable):
        """The records of a ReadOnlyStore. For type checkers, a write never returns."""

        def insert(
            self,
            record: tuple[str, str, str, str, str, str, int, int],
            *,
            is_admitted: bool = False,
        ) -> Never: ...
        def delete(self, place: StoredRecord) -> Never: ...
        def delete_all(self, filters: Filters) -> Never: ...
        def set_actor(
            self,
            now_ms: int,
            actor: str,
            reason: str = "",
            origin: tuple[str, ...] = (),
            input_id: str = "",
        ) -> Never: ...

    class ReadOnlyStore(Store):
        """A store that is open for reads: functions that read accept it as their transaction.

        Any write raises StoreReadOnly. The class exists for type checkers and editors only.
        """

        records: ReadOnlyRecords


class ReadableStores(Protocol):
    """Stores by `memory_id`: those of today (OpenStores), or as they were."""

    def get(self, memory_id: str) -> "Store":
        """Return a store."""

    def exists(self, memory_id: str) -> bool:
        """Return whether a store was ever created."""


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
        "has_periods",
        "last_row",
        "latest",
        "not_valid",
        "oldest",
        "page",
        "placed",
        "search",
        "select",
    ),
    "records.versions": ("count", "count_of", "deleted", "now_ms", "of", "page"),
}


def read_only(store: "Store") -> "ReadOnlyStore":
    """Return a view of an open store for reads. Any other use raises StoreReadOnly."""
    return cast("ReadOnlyStore", _View(store, "", store.memory_id))


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
