"""grants.remove: ends the access of an agent to a store."""

from dataclasses import dataclass

from memrelay.memory.items.access import Level, require
from memrelay.memory.items.grants import (
    check_may_change,
    find_in_force,
    limit_grants,
    may_end_grants,
)
from memrelay.memory.items.identity import Identity, StoreId
from memrelay.memory.operation import Context, operation
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class RemoveGrant(Identity):
    """The access to end."""

    store: StoreId
    """The store."""
    grantee: StoreId
    """The agent that has the access."""


@dataclass(frozen=True, slots=True)
class GrantRemoved:
    """The result of a removal."""

    removed: bool
    """Whether there was a grant."""


@operation("grants.remove", access="write", mutates=True, home="stores")
def remove_grant(tx: Transaction, given: RemoveGrant, context: Context) -> GrantRemoved:
    """End a grant. Grants that its agent gave to others end with it.

    Raises Denied: when the caller has no readwrite access, or when another agent gave the grant
    and the store is not the caller's own.
    """
    return GrantRemoved(delete_grant(tx, given))


def delete_grant(tx: Transaction, given: RemoveGrant) -> bool:
    """Delete a grant and return whether there was one. Raises Denied."""
    require(tx, given, given.store, Level.READWRITE)
    grant = find_in_force(tx, given.store, given.grantee)
    check_may_change(grant, given.agent)
    may_end_others = may_end_grants(tx, given.agent, given.store, given.grantee)
    tx.grants.remove(given.store, given.grantee)
    if may_end_others:
        limit_grants(tx, given.store, given.grantee)
    return grant is not None
