"""Stores, grants and contexts for tests of access to stores of items."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from memrelay.memory.engine.identity import Identity
from memrelay.memory.engine.store import Store
from memrelay.memory.models.shared_stores.access import Level, find_right
from tests.memory.builders import FAST_ROOT, NOW, make_store, perform

STORES = "instances/a3d8f1b2/stores"


@contextmanager
def open_stores() -> Iterator[Store]:
    """Open an empty store of items."""
    with TemporaryDirectory(dir=FAST_ROOT) as root:
        store = make_store(Path(root), STORES)
        yield store
        store.close()


def call(store: Store, name: str, now_ms: int = NOW, /, **given: Any) -> Any:
    """Run an operation in its own transaction."""
    with store.transaction() as tx:
        return perform(tx, name, now_ms=now_ms, **given)


def share(store: Store, granter: str, of: str, grantee: str, level: str, **given: Any) -> Any:
    """Give a grant."""
    named = {"agent": granter, "store": of, "grantee": grantee, "level": level}
    return call(store, "grants.set", **named, **given)


def enter(store: Store, sort: str, ident: str, agent: str, **given: Any) -> Any:
    """Open a context."""
    return call(store, "contexts.open", sort=sort, id=ident, agent=agent, **given)


def level_of(store: Store, agent: str, of: str, now_ms: int = NOW, **given: Any) -> Level | None:
    """Return the access of an agent to a store."""
    store.records.set_actor(now_ms, "")
    right = find_right(store, Identity(agent=agent, **given), of)
    return None if right is None else right.level
