"""Helpers for tests of named memories."""

from typing import Any

from memrelay.memory.engine.store import Store
from tests.memory.builders import perform

A, B, C = (
    "Customer prefers email over phone calls",
    "The invoice is due in May",
    "Customer fiscal year ends in March",
)


def make_memory(tx: Store, name: str = "Customer", **keys: Any) -> str:
    return str(perform(tx, "memories.create", name=name, **keys).id)


def write(tx: Store, memory: str, content: str, **keys: Any) -> Any:
    return perform(tx, "entries.create", memory_id=memory, content=content, **keys)


def contents(tx: Store, memory: str, **keys: Any) -> list[str]:
    return [entry.content for entry in perform(tx, "entries.list", memory_id=memory, **keys).items]


def write_embedded(tx: Store, memory: str, content: str, **keys: Any) -> Any:
    """Write an entry with its vector, as a worker does."""
    assert tx.meaning is not None
    tx.meaning.questions.prepare([content]).result()
    return write(tx, memory, content, **keys)
