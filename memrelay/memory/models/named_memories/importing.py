"""What an import of lines does with named memories and their entries."""

from typing import Any

import orjson

from memrelay.memory.engine.store import Store, Transaction
from memrelay.memory.engine.table import StoreTable
from memrelay.memory.engine.versions import State
from memrelay.memory.models.named_memories.entries import NewEntry, apply_write, plan_write
from memrelay.memory.models.named_memories.entry_text import find_cached_vector, make_digest
from memrelay.memory.models.named_memories.table import EntryTable, Memory, MemoryTable


class MemoryImport(StoreTable):
    """Writes named memories of an import."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._memories = store.table(MemoryTable)

    def put_row(self, columns: dict[str, Any]) -> None:
        """Insert a named memory, or replace the one with its id."""
        memory = Memory(**columns)
        self._memories.remove(memory.id)
        self._memories.add(memory)


class EntryMerge:
    """Merges imported entries into similar ones, by the rules of entries.create."""

    def __init__(self, tx: Transaction, now_ms: int) -> None:
        self._tx, self._now_ms = tx, now_ms

    def exists(self, record: State) -> bool:
        """Return whether an entry of the memory has the text, alone or among its lines."""
        return bool(self._tx.table(EntryTable).same(record.scope, make_digest(record.content)))

    def merge(self, record: State) -> bool:
        """Merge an entry into a similar one. Return False if there is none."""
        new = NewEntry(
            record.guid,
            record.scope,
            record.content,
            self._now_ms,
            record.source,
            tuple(orjson.loads(record.tags)),
            metadata=orjson.loads(record.data or "{}"),
            may_wait=False,
            confirms=False,
            valid_from=record.valid_from,
            valid_to=record.valid_to,
        )
        question = find_cached_vector(self._tx, record.content)
        planned = plan_write(self._tx, new, question)
        if planned.action == "created":
            return False
        apply_write(self._tx, new, planned, question)
        return True

    def index(self, scope: str) -> None:
        """Prepare new entries of a memory for comparisons."""
        self._tx.table(EntryTable).digest(scope)
