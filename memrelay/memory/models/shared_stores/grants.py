"""Grants: access to a store that its agent gives to others, within the rights of the giver."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from memrelay.memory.engine.filter_sql import has_expired
from memrelay.memory.engine.identity import ContextId, Identity, StoreId
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import LAST_MS, Moment, format_time
from memrelay.memory.errors import Denied, Refused
from memrelay.memory.models.shared_stores.access import (
    Level,
    Right,
    find_right,
    get_now_ms,
    lasting_right,
    require,
)
from memrelay.memory.models.shared_stores.table import ContextTable, Grant, GrantTable
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.paging import Limit

# About 300 years.
MAX_TTL_S = 10**10
# How long a grant lasts if its giver's right has no known end.
VOUCHED_MS = 24 * 3600 * 1000
# Seconds until the end, 0 for never.
Seconds = Annotated[float, Field(ge=0, le=MAX_TTL_S)]
# None keeps the present end.
Ttl = Seconds | None


@dataclass(frozen=True, slots=True)
class GrantView:
    """A grant."""

    store: str
    grantee: str
    """The agent that has the access."""
    level: str
    """`search`, `read` or `readwrite`."""
    granted_by: str
    """The agent that gave it."""
    expires_at: Moment | None
    """When it ends; null for never."""
    created_at: Moment


@dataclass(frozen=True, slots=True)
class GrantSet(GrantView):
    """A grant that was given."""

    lowers: bool
    """Whether the agent had more access before, by another grant or as a participant."""


def grant_view(grant: Grant) -> GrantView:
    """Return a grant as interfaces show it."""
    return GrantView(**_view_fields(grant))


def _view_fields(grant: Grant) -> dict[str, Any]:
    """Return the fields of GrantView."""
    return grant._asdict() | {
        "expires_at": None if grant.expires_at is None else format_time(grant.expires_at),
        "created_at": format_time(grant.created_at),
    }


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


@operation("grants.set", access="write", mutates=True, store="stores")
def put_grant(tx: Transaction, request: SetGrant, context: Context) -> GrantSet:
    """Give an agent access to a store, or change its level and end.

    A grant decides alone: it also lowers the access of a participant of a chat. `lowers` in the
    answer states that. A grant ends no later than the access of the agent that gives it.

    Raises Denied: when the caller has no readwrite access, when another agent gave the present
    grant and the store is not the caller's own, or when the caller may not grant this.
    Raises Refused: when the store is the grantee's own.
    """
    store, grantee = request.store, request.grantee
    right = require(tx, request, store, Level.READWRITE)
    before = find_in_force(tx, store, grantee)
    check_may_grant(tx, request.agent, store, grantee)
    check_may_change(before, request.agent)
    now_ms = get_now_ms(tx)
    requested_end = compute_end(
        request.ttl_s, now_ms, None if before is None else before.expires_at
    )
    end = earliest(requested_end, end_of_right(tx, right, request.agent, store))
    created_at = now_ms if before is None else before.created_at
    level = Level(request.level or "read")
    grant = Grant(store, grantee, level, request.agent, end, created_at)
    right_before = find_right(tx, Identity(agent=grantee), store)
    lowers = right_before is not None and not level.allows(right_before.level)
    may_end_others = may_end_grants(tx, request.agent, store, grantee)
    tx.table(GrantTable).clear_expired(grantee, now_ms)
    tx.table(GrantTable).put(grant)
    if may_end_others:
        limit_grants(tx, store, grantee)
    return GrantSet(**_view_fields(grant), lowers=lowers)


def check_may_grant(tx: Transaction, agent: str, store: str, grantee: str) -> None:
    """Check that an agent with readwrite access may give a grant.

    Raises Denied, and Refused if the store is the grantee's own.
    """
    if grantee == store:
        raise Refused(f"agent {grantee!r} always has full access to its own store; grant nothing")
    if agent == store:
        return
    if grantee in _list_sources(tx, store, agent):
        raise Denied(
            f"access to store {store!r} that comes from a chat, a user or another agent cannot "
            f"become a grant to {grantee!r}, on which it depends; grant it to other agents"
        )


def _list_sources(tx: Transaction, store: str, agent: str) -> set[str]:
    """Return the agents on whose rights the right of an agent depends, with the agent itself."""
    sources: set[str] = set()
    while agent not in sources and agent != store:
        sources.add(agent)
        grant = find_in_force(tx, store, agent)
        agent = agent if grant is None else grant.granted_by
    return sources


def compute_end(ttl_s: float | None, now_ms: int, present: int | None) -> int | None:
    """Return the end that a `ttl_s` asks for, Unix ms. None is never. `present` is the end now."""
    if ttl_s is None:
        return present
    return min(now_ms + max(1, int(ttl_s * 1000)), LAST_MS) if ttl_s else None


def earliest(*ends: int | None) -> int | None:
    """Return the earliest of these ends, None if all are never."""
    return min((end for end in ends if end is not None), default=None)


def end_of_right(tx: Transaction, right: Right, agent: str, store: str) -> int | None:
    """Return when the right of an agent ends, Unix ms; None for never.

    A right that only the interface vouches for ends with the chat's or user's last context. If no
    end is known, it is a day from now.
    """
    if right.ends_at is not None or right.source in ("self", "grant"):
        return right.ends_at
    if _has_readwrite(lasting_right(tx, agent, store)):
        return None
    now_ms = get_now_ms(tx)
    return tx.table(ContextTable).last_end(store, right.source, now_ms) or now_ms + VOUCHED_MS


@dataclass(frozen=True, slots=True)
class ListGrants(Identity):
    """The store whose grants to list, and the page."""

    store: ContextId = ""
    """The store; by default the caller's own."""
    limit: Limit = 100
    """The maximum number of grants."""
    cursor: ContextId = ""
    """The `next_cursor` of the previous page."""


@dataclass(frozen=True, slots=True)
class GrantPage:
    """A page of grants, by grantee."""

    grants: tuple[GrantView, ...]
    next_cursor: str | None
    """The cursor of the next page; null on the last page."""


@operation("grants.list", access="read", mutates=False, store="stores")
def list_grants(tx: Transaction, request: ListGrants, context: Context) -> GrantPage:
    """List the grants in force to a store.

    Raises Denied: when the caller has no readwrite access to the store.
    """
    store = request.store or request.agent
    require(tx, request, store, Level.READWRITE)
    grants = tx.table(GrantTable).page(store, get_now_ms(tx), request.cursor, request.limit + 1)
    page = grants[: request.limit]
    more = page[-1].grantee if len(grants) > request.limit else None
    return GrantPage(tuple(map(grant_view, page)), more)


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


@operation("grants.remove", access="write", mutates=True, store="stores")
def delete_grant(tx: Transaction, request: RemoveGrant, context: Context) -> GrantRemoved:
    """End a grant. Grants that its agent gave to others end with it.

    An agent can always end a grant to itself: a participant of a chat then has its full access
    again.

    Raises Denied: when the grant is another agent's and the caller has no readwrite access; or
    when a third agent gave it and the store is not the caller's own.
    """
    is_own = request.grantee == request.agent
    require(tx, request, request.store, Level.SEARCH if is_own else Level.READWRITE)
    grant = find_in_force(tx, request.store, request.grantee)
    if not is_own:
        check_may_change(grant, request.agent)
    may_end_others = may_end_grants(tx, request.agent, request.store, request.grantee)
    tx.table(GrantTable).remove(request.store, request.grantee)
    if may_end_others:
        limit_grants(tx, request.store, request.grantee)
    return GrantRemoved(grant is not None)


def find_in_force(tx: Transaction, store: str, grantee: str) -> Grant | None:
    """Return a grant that has not expired, None if there is none."""
    grant = tx.table(GrantTable).find(store, grantee)
    return None if grant is None or has_expired(grant.expires_at, get_now_ms(tx)) else grant


def check_may_change(grant: Grant | None, agent: str) -> None:
    """Raise Denied if another agent gave the grant, unless the store is the agent's own."""
    if grant is not None and agent not in (grant.granted_by, grant.store):
        raise Denied(
            f"another agent gave {grant.grantee!r} its access to store {grant.store!r}; only that "
            "agent and the store's own agent can change it"
        )


def may_end_grants(tx: Transaction, agent: str, store: str, grantee: str) -> bool:
    """Return whether a grant that an agent changes may end grants that the grantee gave.

    Those of a grantee without a lasting right do not depend on its grant, unless the store's own
    agent changes it. Call it before the change.
    """
    return agent == store or _has_readwrite(lasting_right(tx, grantee, store))


def limit_grants(tx: Transaction, store: str, granter: str) -> None:
    """End the grants that an agent gave no later than its own right, which has changed.

    A grant of an agent that lost its access is deleted. The same holds for the grants that depend
    on it.
    """
    changed = [granter]
    while changed:
        agent = changed.pop()
        if agent != store:
            changed += _limit_grants_by(tx, store, agent)


def _limit_grants_by(tx: Transaction, store: str, granter: str) -> list[str]:
    """Limit the grants that one agent gave, and return the agents whose right has changed."""
    right = lasting_right(tx, granter, store)
    ends_at = None if right is None else right.ends_at
    changed = []
    for grant in tx.table(GrantTable).given_by(granter, store):
        end = earliest(grant.expires_at, ends_at)
        if not _has_readwrite(right):
            tx.table(GrantTable).remove(store, grant.grantee)
        elif end != grant.expires_at:
            tx.table(GrantTable).put(grant._replace(expires_at=end))
        else:
            continue
        changed.append(grant.grantee)
    return changed


def _has_readwrite(right: Right | None) -> bool:
    return right is not None and right.level == Level.READWRITE
