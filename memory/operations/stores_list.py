"""stores.list: lists the stores that an agent can use."""

from dataclasses import dataclass

from memrelay.memory.items.access import list_accessible
from memrelay.memory.items.identity import Identity
from memrelay.memory.operation import Context, operation
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class ListStores(Identity):
    """The agent whose stores to list."""


@dataclass(frozen=True, slots=True)
class StoreAccess:
    """A store that the agent can use."""

    store: str
    level: str
    """`search`, `read` or `readwrite`."""
    source: str
    """`self`, `grant`, `chat` or `user`."""


@dataclass(frozen=True, slots=True)
class StoreList:
    """The stores of an agent: its own, granted ones, chats and users."""

    stores: tuple[StoreAccess, ...]


@operation("stores.list", access="read", mutates=False, home="stores")
def list_stores(tx: Transaction, wanted: ListStores, context: Context) -> StoreList:
    """List the stores that the agent can use, with its level of access to each."""
    found = list_accessible(tx, wanted)
    return StoreList(tuple(StoreAccess(one.store, one.level, one.source) for one in found))
