"""The base of the table classes that models add to a store."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from memrelay.memory.engine.store import Store
    from memrelay.memory.engine.versions import State


class ChangeHook:
    """What a model keeps in memory about its records. RecordTable reports their changes by kind.

    It must not keep the store or RecordTable.
    """

    def inserted(self, record: "State") -> None:
        """Note a new record, whose row may still be buffered."""

    def flushed(self) -> None:
        """Note that no row is buffered."""

    def moved(self, before: str, after: str) -> None:
        """Note that a record has another scope."""

    def removed(self, scope: str) -> None:
        """Note that a record of that scope is removed."""

    def removes(self, which: str, values: list[Any]) -> None:
        """Note that the records of a WHERE clause on `records AS r` are going to be removed."""

    def reset(self) -> None:
        """Forget everything: after a rollback, or after changes that were not reported."""


class StoreTable:
    """One kind of rows or records in a store, as `tx.table(cls)` returns it.

    The object lives as long as the open store, so it must not keep the store itself. Its SQL runs
    in the store's open transaction.
    """

    # The methods that readers of another store may use (open_for_read.py).
    READS: ClassVar[Collection[str]] = ()

    def __init__(self, store: "Store") -> None:
        self._connection, self._records = store.connection, store.records

    def reset(self) -> None:
        """Forget what was kept in memory, after a rollback or another owner's writes."""
