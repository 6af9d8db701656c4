"""Calls of item operations for tests, by default as agent a1 in its own store."""

from typing import Any

from memrelay.memory.engine.store import Store
from tests.memory.builders import NOW
from tests.memory.models.shared_stores.access_cases import call


def put(store: Store, key: str, value: Any, now_ms: int = NOW, /, **given: Any) -> Any:
    """Write an entry, by default of a1 in its own store."""
    named = {"agent": "a1", "store": given.get("agent", "a1")} | given
    return call(store, "items.put", now_ms, key=key, value=value, **named)


def get(store: Store, key: str, now_ms: int = NOW, /, **given: Any) -> Any:
    named = {"agent": "a1", "store": given.get("agent", "a1")} | given
    return call(store, "items.get", now_ms, key=key, **named)


def page(store: Store, now_ms: int = NOW, /, **given: Any) -> Any:
    return call(store, "items.list", now_ms, **({"agent": "a1", "store": "a1"} | given))


def found(store: Store, query: str, now_ms: int = NOW, /, **given: Any) -> list[str]:
    hits = call(store, "items.search", now_ms, query=query, **({"agent": "a1"} | given))
    return [hit.key for hit in hits.items]


def rename(store: Store, key: str, to_key: str, /, **given: Any) -> Any:
    named = {"agent": "a1", "store": "a1", "to_store": "a1"} | given
    return call(store, "items.rename", key=key, to_key=to_key, **named)


def states(store: Store, guid: str) -> int:
    return 1 + store.records.versions.count_of(guid)
