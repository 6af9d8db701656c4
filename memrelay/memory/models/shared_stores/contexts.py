"""Contexts: the chats in which agents take part, and the users for whom they work."""

from dataclasses import dataclass
from typing import Annotated, Literal

import orjson
from pydantic import Field

from memrelay.memory.engine.filter_sql import has_expired
from memrelay.memory.engine.identity import ContextId, StoreId
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment, format_time
from memrelay.memory.errors import Refused
from memrelay.memory.models.shared_stores.access import get_now_ms
from memrelay.memory.models.shared_stores.grants import Ttl, compute_end, limit_grants
from memrelay.memory.models.shared_stores.table import ContextTable, Participation
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.paging import Limit


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


@operation("contexts.open", access="admin", mutates=True, store="stores")
def open_context(tx: Transaction, request: OpenContext, context: Context) -> ContextView:
    """Let an agent use the store of a chat or user until the context is closed or ends."""
    now_ms, before = get_now_ms(tx), tx.table(ContextTable).find(request.id, request.agent)
    if before is not None and has_expired(before.expires_at, now_ms):
        before = None
    end = compute_end(request.ttl_s, now_ms, None if before is None else before.expires_at)
    opened = Participation(request.id, request.sort, request.agent, end)
    tx.table(ContextTable).clear_expired(request.agent, now_ms)
    tx.table(ContextTable).put(opened)
    limit_grants(tx, request.id, request.agent)
    return context_view(opened)


def context_view(one: Participation) -> ContextView:
    """Return a context as interfaces show it."""
    end = None if one.expires_at is None else format_time(one.expires_at)
    return ContextView(one.sort, one.id, one.agent, end)


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


@operation("contexts.close", access="admin", mutates=True, store="stores")
def close_context(tx: Transaction, request: CloseContext, context: Context) -> ContextClosed:
    """End the access of an agent to the store of a chat or user.

    Grants to the store that the agent gave end with it.
    """
    present = tx.table(ContextTable).find(request.id, request.agent)
    if present is None or present.sort != request.sort:
        return ContextClosed(False)
    tx.table(ContextTable).remove(request.id, request.agent)
    limit_grants(tx, request.id, request.agent)
    return ContextClosed(not has_expired(present.expires_at, get_now_ms(tx)))


@dataclass(frozen=True, slots=True)
class ListContexts:
    """The contexts to list, and the page."""

    sort: Literal["", "chat", "user"] = ""
    """Only chats, or only users."""
    id: ContextId = ""
    """Only this chat or user."""
    agent: ContextId = ""
    """Only contexts of this agent."""
    limit: Limit = 100
    """The maximum number of contexts."""
    cursor: Annotated[str, Field(max_length=1024)] = ""
    """The `next_cursor` of the previous page."""


@dataclass(frozen=True, slots=True)
class ContextPage:
    """A page of contexts, by id and agent."""

    contexts: tuple[ContextView, ...]
    next_cursor: str | None
    """The cursor of the next page; null on the last page."""


@operation("contexts.list", access="admin", mutates=False, store="stores")
def list_contexts(tx: Transaction, request: ListContexts, context: Context) -> ContextPage:
    """List open contexts.

    Raises Refused: when the cursor is invalid.
    """
    names = ("sort", "id", "agent")
    columns = {name: value for name in names if (value := getattr(request, name))}
    after = _parse_cursor(request.cursor)
    contexts = tx.table(ContextTable).page(columns, get_now_ms(tx), after, request.limit + 1)
    page = contexts[: request.limit]
    more = None
    if len(contexts) > request.limit:
        more = orjson.dumps([page[-1].id, page[-1].agent]).decode()
    return ContextPage(tuple(map(context_view, page)), more)


def _parse_cursor(cursor: str) -> tuple[str, str]:
    """Return the (id, agent) in a cursor. Raises Refused."""
    if not cursor:
        return "", ""
    try:
        ident, agent = orjson.loads(cursor)
    except (ValueError, TypeError):
        ident = agent = None
    if not isinstance(ident, str) or not isinstance(agent, str):
        raise Refused("`cursor` is invalid; omit it to start at the first page")
    return ident, agent
