"""contexts.list: lists which agents take part in which chats and work for which users."""

from dataclasses import dataclass
from typing import Annotated, Literal

import orjson
from pydantic import Field

from memrelay.memory.errors import Refused
from memrelay.memory.items.access import now_of
from memrelay.memory.items.identity import ContextId
from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.contexts_open import ContextView, context_view
from memrelay.memory.sqlite.store import Transaction

MOST = 1000


@dataclass(frozen=True, slots=True)
class ListContexts:
    """The contexts to list, and the page."""

    sort: Literal["", "chat", "user"] = ""
    """Only chats, or only users."""
    id: ContextId = ""
    """Only this chat or user."""
    agent: ContextId = ""
    """Only contexts of this agent."""
    limit: Annotated[int, Field(ge=1, le=MOST)] = 100
    """The maximum number of contexts."""
    cursor: Annotated[str, Field(max_length=1024)] = ""
    """The `next_cursor` of the previous page."""


@dataclass(frozen=True, slots=True)
class ContextPage:
    """A page of contexts, by id and agent."""

    contexts: tuple[ContextView, ...]
    next_cursor: str | None
    """The cursor of the next page; null on the last page."""


@operation("contexts.list", access="admin", mutates=False, home="stores")
def list_contexts(tx: Transaction, wanted: ListContexts, context: Context) -> ContextPage:
    """List open contexts.

    Raises Refused: when the cursor is invalid.
    """
    given = {name: getattr(wanted, name) for name in ("sort", "id", "agent")}
    named = {name: value for name, value in given.items() if value}
    after = _parse_cursor(wanted.cursor)
    found = tx.contexts.page(named, now_of(tx), after, wanted.limit + 1)
    page = found[: wanted.limit]
    more = None
    if len(found) > wanted.limit:
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
