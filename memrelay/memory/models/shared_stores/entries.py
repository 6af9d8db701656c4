"""What several item operations do: find an entry, and check a version or the room of a store."""

from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.versions import State, StoredRecord
from memrelay.memory.errors import (
    Denied,
    RecordNotFound,
    ResultTooLarge,
    TooManyKeys,
    VersionConflict,
)
from memrelay.memory.models.shared_stores.item import Address, version_of
from memrelay.memory.models.shared_stores.table import ItemTable
from memrelay.memory.operations import Context

# Entries of a store.
MAX_KEYS = 1_000_000


def find_entry(
    tx: Transaction, address: Address, agent: str, *, owner: str = "", internal: bool = False
) -> StoredRecord:
    """Return the entry that a read of the key returns. Raises RecordNotFound."""
    found = tx.table(ItemTable).best(address, agent, owner, internal=internal)
    if found is None:
        raise missing_entry(address)
    return found


def find_own_entry(
    tx: Transaction, address: Address, agent: str, *, internal: bool
) -> StoredRecord | None:
    """Return the agent's own entry before a change, None if no agent has a visible one.

    Without `internal`, an internal entry does not exist. Raises Denied if only another agent has
    an entry with the key.
    """
    found = tx.table(ItemTable).own_to_write(address, agent)
    if found is not None and (internal or found.whole.in_context):
        return found
    other = tx.table(ItemTable).best(address, agent, internal=internal)
    if other is None:
        return None
    raise Denied(
        f"entry {address.key!r} belongs to agent {other.whole.owner!r}; only that agent can "
        "rename or delete it"
    )


def missing_entry(address: Address) -> RecordNotFound:
    """Return the error for a key without an entry that the caller can see."""
    return RecordNotFound(
        f"no entry has the key {address.key!r} in store {address.store!r}; "
        "use items.list to see its keys"
    )


def check_entry_version(place: StoredRecord | None, key: str, allowed: tuple[str, ...]) -> None:
    """Raise VersionConflict if an entry has none of the allowed versions; () allows all."""
    version = "" if place is None else version_of(place.whole)
    if allowed and version not in allowed:
        found = f"has version {version}" if version else "does not exist"
        raise VersionConflict(
            f"the agent's entry {key!r} {found}, not the expected one; read it again and retry "
            "with its version"
        )


def refuse_surplus_key(tx: Transaction, store: str) -> None:
    """Raise TooManyKeys if a store has no room for another entry."""
    if tx.table(ItemTable).count(store) >= MAX_KEYS:
        raise TooManyKeys(
            f"store {store!r} has {MAX_KEYS} keys, the maximum; delete some, or use another store"
        )


def check_entry_fits(state: State, context: Context) -> State:
    """Return the entry unchanged. Raises ResultTooLarge if it does not fit into an answer."""
    if (size := len(state.content.encode()) + len(state.data or "")) > context.result_bytes:
        raise ResultTooLarge(
            f"entry {state.key!r} has {size} bytes, and an answer has at most "
            f"{context.result_bytes}; use `memrelay export PIPELINE --records` to read it"
        )
    return state
