"""items.rename: moves an entry of a shared store to another key or store."""

from dataclasses import dataclass

from memrelay.memory.errors import Denied, KeyTaken
from memrelay.memory.items.access import Level, require
from memrelay.memory.items.entries import find_own_entry, missing_entry, refuse_surplus_key
from memrelay.memory.items.identity import Identity, StoreId
from memrelay.memory.items.item import (
    Address,
    ItemView,
    Key,
    Namespace,
    has_sealed_value,
    view_state,
)
from memrelay.memory.operation import Context, operation
from memrelay.memory.sqlite.store import Transaction
from memrelay.memory.sqlite.versions import StoredRecord


@dataclass(frozen=True, slots=True)
class RenameItem(Identity):
    """The entry to move, and its new place. Only the agent that wrote it can."""

    store: StoreId
    """The store."""
    key: Key
    """The key."""
    to_store: StoreId
    """The store of the new key."""
    to_key: Key
    """The new key, which must be free."""
    namespace: Namespace = ""
    """The namespace within both stores."""


@operation("items.rename", access="write", mutates=True, home="stores")
def rename(tx: Transaction, wanted: RenameItem, context: Context) -> ItemView:
    """Move the agent's own entry to another key or store.

    It keeps its guid, flags, end and history. Its present key as the new key changes nothing.

    Raises Denied: when the agent has no readwrite access to one of the stores, another agent wrote
    the entry, or it is encrypted or sealed.
    Raises RecordNotFound: when there is no such entry.
    Raises KeyTaken: when an entry has the new key.
    Raises TooManyKeys: when the new store is full.
    """
    return rename_item(tx, wanted, context)


def rename_item(
    tx: Transaction, wanted: RenameItem, context: Context, *, internal: bool = True
) -> ItemView:
    """Move an entry inside an open transaction. Raises as `items.rename` does.

    Without `internal`, an internal entry does not exist.
    """
    for store in dict.fromkeys((wanted.store, wanted.to_store)):
        require(tx, wanted, store, Level.READWRITE)
    address = Address(wanted.store, wanted.namespace, wanted.key)
    target = Address(wanted.to_store, wanted.namespace, wanted.to_key)
    place = find_own_entry(tx, address, wanted.agent, internal=internal)
    if place is None:
        raise missing_entry(address)
    if target == address:
        return view_state(place.whole)
    _check_movable(place)
    _refuse_taken_key(tx, target, wanted.agent)
    if target.store != address.store:
        refuse_surplus_key(tx, target.store)
    return view_state(
        tx.items.change(place, place.whole._replace(scope=target.store, key=target.key))
    )


def _check_movable(place: StoredRecord) -> None:
    """Raise Denied if the key takes part in the encryption of the value."""
    if place.whole.encrypted or has_sealed_value(place.whole):
        raise Denied(
            f"entry {place.whole.key!r} is encrypted together with its key; read it, write it "
            "under the new key, and delete it"
        )


def _refuse_taken_key(tx: Transaction, target: Address, agent: str) -> None:
    """Raise KeyTaken if any agent has an entry at the new key."""
    if tx.items.own_to_write(target, agent) is not None or tx.items.best(target, agent) is not None:
        raise KeyTaken(
            f"key {target.key!r} of store {target.store!r} has an entry; delete it first, or use "
            "another key"
        )
