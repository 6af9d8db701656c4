"""items.reseal: replaces the stored form of an internal value, for `memrelay reseal`."""

from dataclasses import dataclass

from memrelay.memory.errors import Refused
from memrelay.memory.items.entries import check_entry_version, missing_entry
from memrelay.memory.items.identity import StoreId
from memrelay.memory.items.item import Address, Key, Namespace, encode, is_hidden, version_of
from memrelay.memory.operation import Context, operation
from memrelay.memory.records.view import Versions
from memrelay.memory.sealed_text import is_sealed
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class ResealItem:
    """An internal entry of any agent, and its value, sealed with another key."""

    store: StoreId
    """The store."""
    key: Key
    """The key."""
    owner: StoreId
    """The agent that wrote the entry."""
    value: str
    """The sealed value: `v1.` and three more parts."""
    namespace: Namespace = ""
    """The namespace within the store."""
    if_version: Versions = ()
    """Write only if the entry has one of these versions."""


@dataclass(frozen=True, slots=True)
class ItemResealed:
    """The result."""

    version: str
    """The new version of the entry."""


@operation("items.reseal", access="admin", mutates=True, home="stores")
def reseal(tx: Transaction, given: ResealItem, context: Context) -> ItemResealed:
    """Replace the sealed value of an internal entry. Grants and settings of agents do not count.

    Raises RecordNotFound: when the owner has no internal entry with the key, or its client
    encrypted it.
    Raises VersionConflict: when the entry has another version.
    Raises Refused: when the value is not sealed.
    """
    address = Address(given.store, given.namespace, given.key)
    place = tx.items.own(address, given.owner)
    if place is None or place.whole.encrypted or not is_hidden(place.whole):
        raise missing_entry(address)
    if not is_sealed(given.value):
        raise Refused("`value` is not sealed; use `memrelay reseal PIPELINE`, which has the keys")
    check_entry_version(place, given.key, given.if_version)
    _, data = encode(given.value, given.namespace, in_context=False, encrypted=False)
    return ItemResealed(version_of(tx.items.change(place, place.whole._replace(data=data))))
