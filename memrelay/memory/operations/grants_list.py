"""grants.list: lists who has access to a store."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memrelay.memory.items.access import Level, now_of, require
from memrelay.memory.items.grants import GrantView, grant_view
from memrelay.memory.items.identity import ContextId, Identity
from memrelay.memory.operation import Context, operation
from memrelay.memory.sqlite.store import Transaction

MOST = 1000


@dataclass(frozen=True, slots=True)
class ListGrants(Identity):
    """The store whose grants to list, and the page."""

    store: ContextId = ""
    """The store; by default the caller's own."""
    limit: Annotated[int, Field(ge=1, le=MOST)] = 100
    """The maximum number of grants."""
    cursor: ContextId = ""
    """The `next_cursor` of the previous page."""


@dataclass(frozen=True, slots=True)
class GrantPage:
    """A page of grants, by grantee."""

    grants: tuple[GrantView, ...]
    next_cursor: str | None
    """The cursor of the next page; null on the last page."""


@operation("grants.list", access="read", mutates=False, home="stores")
def list_grants(tx: Transaction, wanted: ListGrants, context: Context) -> GrantPage:
    """List the grants in force to a store.

    Raises Denied: when the caller has no readwrite access to the store.
    """
    store = wanted.store or wanted.agent
    require(tx, wanted, store, Level.READWRITE)
    found = tx.grants.page(store, now_of(tx), wanted.cursor, wanted.limit + 1)
    page = found[: wanted.limit]
    more = page[-1].grantee if len(found) > wanted.limit else None
    return GrantPage(tuple(map(grant_view, page)), more)
