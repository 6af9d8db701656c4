"""items.delete: deletes the calling agent's entry of a shared store."""

from dataclasses import dataclass

from memrelay.memory.items.access import Level, require
from memrelay.memory.items.entries import check_entry_version, find_own_entry
from memrelay.memory.items.identity import Identity, StoreId
from memrelay.memory.items.item import Address, Key, Namespace
from memrelay.memory.operation import Context, operation
from memrelay.memory.records.view import Versions
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class DeleteItem(Identity):
    """The entry to delete. Only the agent that wrote it can."""

    store: StoreId
    """The store."""
    key: Key
    """The key."""
    namespace: Namespace = ""
    """The namespace within the store."""
    if_version: Versions = ()
    """Delete only if the entry has one of these versions."""


@dataclass(frozen=True, slots=True)
class ItemDeleted:
    """The result of the deletion."""

    deleted: bool
    """Whether there was an entry."""


@operation("items.delete", access="delete", mutates=True, home="stores")
def delete(tx: Transaction, target: DeleteItem, context: Context) -> ItemDeleted:
    """Delete the agent's own entry. A missing key is no error.

    Raises Denied: when the agent has no readwrite access, or another agent wrote the entry.
    Raises VersionConflict: when the entry has another version, or does not exist.
    """
    return delete_item(tx, target, context)


def delete_item(
    tx: Transaction, target: DeleteItem, context: Context, *, internal: bool = True
) -> ItemDeleted:
    """Delete an entry inside an open transaction. Raises as `items.delete` does.

    Without `internal`, an internal entry does not exist.
    """
    require(tx, target, target.store, Level.READWRITE)
    address = Address(target.store, target.namespace, target.key)
    found = find_own_entry(tx, address, target.agent, internal=internal)
    check_entry_version(found, target.key, target.if_version)
    if found is not None:
        tx.records.delete(found)
    return ItemDeleted(found is not None)
