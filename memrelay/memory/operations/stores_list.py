"""stores.list: lists the stores that an agent can use."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memrelay.memory.items.access import list_accessible
from memrelay.memory.items.identity import ContextId, Identity
from memrelay.memory.operation import Context, operation
from memrelay.memory.sqlite.store import Transaction

MOST = 1000


@dataclass(frozen=True, slots=True)
class ListStores(Identity):
    """The agent whose stores to list, and the page."""

    limit: Annotated[int, Field(ge=1, le=MOST)] = 100
    """The maximum number of stores. A page may have fewer."""
    cursor: ContextId = ""
    """The `next_cursor` of the previous page, with the same agent, user and chat."""


@dataclass(frozen=True, slots=True)
class StoreAccess:
    """A store that the agent can use."""

    store: str
    level: str
    """`search`, `read` or `readwrite`."""
    source: str
    """`self`, `grant`, `chat` or `user`."""


@dataclass(frozen=True, slots=True)
class StorePage:
    """A page of an agent's stores: its own, the current chat and user, then the others by id."""

    stores: tuple[StoreAccess, ...]
    next_cursor: str | None
    """The cursor of the next page; null on the last page."""


@operation("stores.list", access="read", mutates=False, home="stores")
def list_stores(tx: Transaction, wanted: ListStores, context: Context) -> StorePage:
    """List the stores that the agent can use, with its level of access to each."""
    found, more = list_accessible(tx, wanted, wanted.cursor, wanted.limit)
    return StorePage(tuple(StoreAccess(one.store, one.level, one.source) for one in found), more)
