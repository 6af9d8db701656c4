"""grants.set: gives an agent access to a store."""

from dataclasses import dataclass
from typing import Literal

from memrelay.memory.items.access import Level, now_of, require_right
from memrelay.memory.items.access_tables import Grant
from memrelay.memory.items.grants import (
    GrantView,
    Ttl,
    check_may_change,
    check_may_grant,
    earliest,
    end_of,
    end_of_right,
    find_in_force,
    grant_view,
    limit_grants,
    may_end_grants,
)
from memrelay.memory.items.identity import Identity, StoreId
from memrelay.memory.operation import Context, operation
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class SetGrant(Identity):
    """The access to give."""

    store: StoreId
    """The store."""
    grantee: StoreId
    """The agent that gets the access."""
    level: Literal["search", "read", "readwrite"] | None = "read"
    """`search`, `read` or `readwrite`; null means `read`."""
    ttl_s: Ttl = None
    """Seconds until it ends; 0 means never. By default, a grant in force keeps its end."""


@operation("grants.set", access="write", mutates=True, home="stores")
def set_grant(tx: Transaction, given: SetGrant, context: Context) -> GrantView:
    """Give an agent access to a store, or change its level and end.

    A grant ends no later than the access of the agent that gives it.

    Raises Denied: when the caller has no readwrite access, when another agent gave the present
    grant and the store is not the caller's own, or when the caller may not grant this.
    Raises Refused: when the store is the grantee's own.
    """
    return grant_view(put_grant(tx, given))


def put_grant(tx: Transaction, given: SetGrant) -> Grant:
    """Store a grant and return it. Raises the same errors as grants.set."""
    store, grantee = given.store, given.grantee
    right = require_right(tx, given, store, Level.READWRITE)
    before = find_in_force(tx, store, grantee)
    check_may_grant(tx, given.agent, store, grantee)
    check_may_change(before, given.agent)
    now_ms = now_of(tx)
    wanted_end = end_of(given.ttl_s, now_ms, None if before is None else before.expires_at)
    end = earliest(wanted_end, end_of_right(tx, right, given.agent, store))
    created_at = now_ms if before is None else before.created_at
    grant = Grant(store, grantee, Level(given.level or "read"), given.agent, end, created_at)
    may_end_others = may_end_grants(tx, given.agent, store, grantee)
    tx.grants.clear_expired(grantee, now_ms)
    tx.grants.put(grant)
    if may_end_others:
        limit_grants(tx, store, grantee)
    return grant
