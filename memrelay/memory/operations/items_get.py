"""items.get: reads an entry of a shared store by its key."""

from dataclasses import dataclass

from memrelay.memory.items.access import Level, require
from memrelay.memory.items.entries import check_entry_fits, find_entry
from memrelay.memory.items.identity import ContextId, Identity, StoreId
from memrelay.memory.items.item import Address, ItemView, Key, Namespace, view_state
from memrelay.memory.operation import Context, operation
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class GetItem(Identity):
    """The entry to read."""

    store: StoreId
    """The store."""
    key: Key
    """The key."""
    namespace: Namespace = ""
    """The namespace within the store."""
    owner: ContextId = ""
    """Read the entry of this agent. By default the caller's own, else the newest."""
    internal: bool = False
    """Whether to return an internal entry too. Otherwise it does not exist."""


@operation("items.get", access="read", mutates=False, home="stores")
def get(tx: Transaction, wanted: GetItem, context: Context) -> ItemView:
    """Return an entry: the agent's own, else the newest with that key.

    Raises Denied: when the agent has no read access.
    Raises RecordNotFound: when there is no such entry.
    Raises ResultTooLarge: when the entry does not fit into an answer.
    """
    return get_item(tx, wanted, context)


def get_item(tx: Transaction, wanted: GetItem, context: Context) -> ItemView:
    """Return an entry inside an open transaction. Raises as `items.get` does."""
    require(tx, wanted, wanted.store, Level.READ)
    address = Address(wanted.store, wanted.namespace, wanted.key)
    found = find_entry(tx, address, wanted.agent, owner=wanted.owner, internal=wanted.internal)
    return view_state(check_entry_fits(found.whole, context), with_hidden=True)
