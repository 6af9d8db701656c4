"""contexts.close: ends the access of an agent to the store of a chat or user."""

from dataclasses import dataclass
from typing import Literal

from memrelay.memory.items.access import now_of
from memrelay.memory.items.grants import limit_grants
from memrelay.memory.items.identity import StoreId
from memrelay.memory.operation import Context, operation
from memrelay.memory.sqlite.filters import has_expired
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class CloseContext:
    """The context to close."""

    sort: Literal["chat", "user"]
    """`chat` or `user`."""
    id: StoreId
    """The id of the chat or user."""
    agent: StoreId
    """The agent that leaves it."""


@dataclass(frozen=True, slots=True)
class ContextClosed:
    """The result of closing a context."""

    closed: bool
    """Whether it was open."""


@operation("contexts.close", access="admin", mutates=True, home="stores")
def close_context(tx: Transaction, given: CloseContext, context: Context) -> ContextClosed:
    """End the access of an agent to the store of a chat or user.

    Grants to the store that the agent gave end with it.
    """
    found = tx.contexts.find(given.id, given.agent)
    if found is None or found.sort != given.sort:
        return ContextClosed(False)
    tx.contexts.remove(given.id, given.agent)
    limit_grants(tx, given.id, given.agent)
    return ContextClosed(not has_expired(found.expires_at, now_of(tx)))
