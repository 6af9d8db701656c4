"""memories.get: reads one named memory by its id."""

from dataclasses import dataclass

from memrelay.memory.errors import RecordNotFound
from memrelay.memory.operation import Context, operation
from memrelay.memory.records.memory_view import Ident, MemoryView, memory_view
from memrelay.memory.sqlite.memories import Memory
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class GetMemory:
    """The memory to read."""

    id: Ident
    """The id of the memory."""


@operation("memories.get", access="read", mutates=False, home="memories")
def get_memory(tx: Transaction, wanted: GetMemory, context: Context) -> MemoryView:
    """Return one named memory.

    Raises RecordNotFound: when it does not exist.
    """
    return memory_view(fetch_memory(tx, wanted.id), tx.memory_id)


def fetch_memory(tx: Transaction, ident: str) -> Memory:
    """Return the stored memory. Raises RecordNotFound."""
    memory = tx.memories.find(ident)
    if memory is None:
        raise RecordNotFound(
            f"Memory not found: no memory has the id {ident[:128]!r}; memories.list lists them"
        )
    return memory


def find_memory(tx: Transaction, name_or_id: str) -> Memory | None:
    """Return the memory with that id, else the oldest with that name, None if there is none."""
    return tx.memories.find(name_or_id) or tx.memories.named(name_or_id)
