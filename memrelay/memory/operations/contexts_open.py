"""contexts.open: states that an agent takes part in a chat or works for a user."""

from dataclasses import dataclass
from typing import Literal

from memrelay.memory.items.access import now_of
from memrelay.memory.items.access_tables import Participation
from memrelay.memory.items.grants import Ttl, end_of, limit_grants
from memrelay.memory.items.identity import StoreId
from memrelay.memory.operation import Context, operation
from memrelay.memory.sqlite.filters import has_expired
from memrelay.memory.sqlite.store import Transaction
from memrelay.memory.timestamps import Moment, format_time


@dataclass(frozen=True, slots=True)
class OpenContext:
    """A chat or user, and the agent that gets access to its store."""

    sort: Literal["chat", "user"]
    """`chat` or `user`."""
    id: StoreId
    """The id of the chat or user, which is also the id of its store."""
    agent: StoreId
    """The agent that takes part in the chat or works for the user."""
    ttl_s: Ttl = None
    """Seconds until it ends; 0 means never. By default, an open context keeps its end."""


@dataclass(frozen=True, slots=True)
class ContextView:
    """An agent that takes part in a chat or works for a user."""

    sort: str
    """`chat` or `user`."""
    id: str
    agent: str
    expires_at: Moment | None
    """When it ends; null for never."""


@operation("contexts.open", access="admin", mutates=True, home="stores")
def open_context(tx: Transaction, given: OpenContext, context: Context) -> ContextView:
    """Let an agent use the store of a chat or user until the context is closed or ends."""
    now_ms, before = now_of(tx), tx.contexts.find(given.id, given.agent)
    if before is not None and has_expired(before.expires_at, now_ms):
        before = None
    end = end_of(given.ttl_s, now_ms, None if before is None else before.expires_at)
    opened = Participation(given.id, given.sort, given.agent, end)
    tx.contexts.clear_expired(given.agent, now_ms)
    tx.contexts.put(opened)
    limit_grants(tx, given.id, given.agent)
    return context_view(opened)


def context_view(one: Participation) -> ContextView:
    """Return a context as interfaces show it."""
    end = None if one.expires_at is None else format_time(one.expires_at)
    return ContextView(one.sort, one.id, one.agent, end)
