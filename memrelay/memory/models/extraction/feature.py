"""The feature that deletes facts and summaries with the last turn that they were made of."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import proxy

from memrelay.memory.engine.features import Feature
from memrelay.memory.engine.feed import DELETED, EXPIRED
from memrelay.memory.models.extraction.evidence import HAS_TURN
from memrelay.memory.models.extraction.progress import ProgressTable

if TYPE_CHECKING:
    from memrelay.memory.engine.store import Store

DEPENDENTS = "SELECT DISTINCT record FROM evidence WHERE turn = ?"
SELECTED = "(SELECT r.guid FROM records AS r{})"
MANY_DEPENDENTS = f"SELECT DISTINCT record FROM evidence WHERE turn IN {SELECTED}"
# Expired records leave no history, so nothing has to find them again.
FORGET_TURNS = f"DELETE FROM evidence WHERE turn IN {SELECTED}"
FORGET_RECORDS = f"DELETE FROM evidence WHERE record IN {SELECTED}"


class Evidence(Feature):
    """Follows deletions. It deletes before the commit, in the name of who deleted the turns."""

    def __init__(self, store: "Store") -> None:
        super().__init__(store)
        # The records keep the path, so a real reference would be a cycle.
        self._records = proxy(store.records)
        self._progress = store.table(ProgressTable)
        self._dependents: set[str] = set()
        self._has_deleted = False

    def reset(self) -> None:
        """Forget what the open transaction has deleted, after a rollback."""
        self._dependents.clear()
        self._has_deleted = False

    def changed(self, change: Any, subject: str, data: Mapping[str, Any] | None = None) -> None:
        """Note a deleted turn."""
        if change in (DELETED, EXPIRED):
            self._has_deleted = True
            self._note(DEPENDENTS, [subject])

    def selected(self, change: Any, which: str, values: Sequence[Any]) -> None:
        """Note the turns that are going to be deleted."""
        if change not in (DELETED, EXPIRED):
            return
        self._has_deleted = True
        self._note(MANY_DEPENDENTS.format(which), values)
        if change == EXPIRED:
            self._connection.execute(FORGET_TURNS.format(which), values)
            self._connection.execute(FORGET_RECORDS.format(which), values)

    def complete(self) -> None:
        """Delete the records whose turns are all gone, and keep the cursors right."""
        while self._dependents:
            guid = self._dependents.pop()
            if self._connection.execute(HAS_TURN, (guid,)).get:
                continue
            stored = self._records.by_guid(guid)
            if stored is not None:
                self._records.delete(stored)
                self._versions.flush()
        if self._has_deleted:
            self._has_deleted = False
            self._progress.limit_rows()

    def _note(self, sql: str, values: Sequence[Any]) -> None:
        self._dependents.update(guid for (guid,) in self._connection.execute(sql, values))
