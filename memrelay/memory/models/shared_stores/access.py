"""Decides which agent may do what in which store: the only place that does.

The first rule that matches decides:

1. The store belongs to the agent itself: readwrite.
2. A grant is in force: the level of the grant, even if a later rule gives more.
3. The agent takes part in the chat of that id, or the interface vouches for the chat: readwrite.
4. The same for the user.

The settings of an agent can switch off all its memory, or the rules 1, 3 and 4. A call that such a
rule would allow is denied.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple

from memrelay.memory.engine.filter_sql import has_expired
from memrelay.memory.engine.identity import Identity
from memrelay.memory.engine.store import Transaction
from memrelay.memory.errors import Denied
from memrelay.memory.models.shared_stores.table import (
    AgentSettings,
    AgentSettingsTable,
    ContextTable,
    Grant,
    GrantTable,
    Participation,
)

# Where a right comes from. A right from a chat or user belongs to the conversation, not the agent.
Source = Literal["self", "grant", "chat", "user"]


class Level(StrEnum):
    """A level of access to a store, in ascending order."""

    SEARCH = "search"
    READ = "read"
    READWRITE = "readwrite"

    def allows(self, needed: "Level") -> bool:
        """Return whether this level includes the needed one."""
        return _RANKS[self] >= _RANKS[needed]


_RANKS = {level: rank for rank, level in enumerate(Level)}


class Right(NamedTuple):
    """The access of an agent to a store."""

    level: Level
    source: Source
    # Unix ms, None if no end is known.
    ends_at: int | None = None


@dataclass(frozen=True, slots=True)
class StoreAccess:
    """A store that the agent can use."""

    store: str
    level: str
    """`search`, `read` or `readwrite`."""
    source: str
    """`self`, `grant`, `chat` or `user`."""


def get_now_ms(tx: Transaction) -> int:
    """Return the time of the operation that runs in the transaction, Unix ms."""
    return tx.records.versions.now_ms


def require(tx: Transaction, identity: Identity, store: str, level: Level) -> Right:
    """Return the right of the calling agent if it includes that level. Raises Denied.

    The message is the same for a store that does not exist.
    """
    right = find_right(tx, identity, store)
    if right is None or not right.level.allows(level):
        raise Denied(
            f"agent {identity.agent!r} has no {level} access to store {store!r}; its owner can "
            "grant it with grants.set"
        )
    return right


def find_right(tx: Transaction, identity: Identity, store: str) -> Right | None:
    """Return the right of the calling agent to a store, None if it has none."""
    agent = identity.agent
    grant = None if store == agent else tx.table(GrantTable).find(store, agent)
    context = None if store == agent else tx.table(ContextTable).find(store, agent)
    settings = tx.table(AgentSettingsTable).find(agent)
    return _decide(identity, store, settings, get_now_ms(tx), grant=grant, context=context)


def lasting_right(tx: Transaction, agent: str, store: str) -> Right | None:
    """Return the right that an agent has by grants and contexts alone, None if it has none.

    Vouching of an interface and the agent's settings do not count.
    """
    grant = tx.table(GrantTable).find(store, agent)
    context = tx.table(ContextTable).find(store, agent)
    identity, settings = Identity(agent=agent), AgentSettings(agent)
    return _decide(identity, store, settings, get_now_ms(tx), grant=grant, context=context)


def list_accessible(
    tx: Transaction, identity: Identity, after: str = "", limit: int | None = None
) -> tuple[list[StoreAccess], str | None]:
    """Return stores that the calling agent can use, and the `after` of the next page if there is
    one.

    The agent's own store and those that the interface vouches for come first. Grants and contexts
    follow by id. A page considers `limit` stores, and has fewer if classes are switched off.
    """
    first = list(dict.fromkeys((identity.agent, *(one for _, one in _vouched(identity) if one))))
    heads = ["", *first]
    head, beyond = (heads[heads.index(after) + 1 :], "") if after in heads else ([], after)
    most = -1 if limit is None else limit + len(first) + 1
    now_ms, agent = get_now_ms(tx), identity.agent
    settings = tx.table(AgentSettingsTable).find(agent)
    in_force = tx.table(GrantTable).of_agent(agent, now_ms, beyond, most)
    open_now = tx.table(ContextTable).of_agent(agent, now_ms, beyond, most)
    grants = {grant.store: grant for grant in in_force}
    contexts = {context.id: context for context in open_now}
    stores = [*head, *sorted({*grants, *contexts}.difference(first))]
    page = stores[:limit]
    accessible = []
    for store in page:
        if store in first:
            right = find_right(tx, identity, store)
        else:
            grant, context = grants.get(store), contexts.get(store)
            right = _decide(identity, store, settings, now_ms, grant=grant, context=context)
        if right is not None:
            accessible.append(StoreAccess(store, right.level, right.source))
    return accessible, page[-1] if len(page) < len(stores) else None


def _decide(
    identity: Identity,
    store: str,
    settings: AgentSettings,
    now_ms: int,
    *,
    grant: Grant | None,
    context: Participation | None,
) -> Right | None:
    """Apply the rules in order. `grant` and `context` are the agent's, for that store."""
    if not settings.enabled:
        return None
    if store == identity.agent:
        return Right(Level.READWRITE, "self") if settings.own else None
    if grant is not None and not has_expired(grant.expires_at, now_ms):
        return Right(Level(grant.level), "grant", grant.expires_at)
    return _right_in_context(identity, store, settings, now_ms, context)


def _right_in_context(
    identity: Identity,
    store: str,
    settings: AgentSettings,
    now_ms: int,
    context: Participation | None,
) -> Right | None:
    """Return the right that a chat or a user gives."""
    present = context is not None and not has_expired(context.expires_at, now_ms)
    for sort, vouched_store in _vouched(identity):
        is_open = context is not None and present and context.sort == sort
        if not is_open and vouched_store != store:
            continue
        is_on = settings.chat if sort == "chat" else settings.user
        ends_at = context.expires_at if context is not None and is_open else None
        return Right(Level.READWRITE, sort, ends_at) if is_on else None
    return None


def _vouched(identity: Identity) -> tuple[tuple[Literal["chat", "user"], str], ...]:
    """Return the sorts of context with the id that the interface guarantees, "" for none."""
    return (
        ("chat", identity.chat if "chat" in identity.vouched else ""),
        ("user", identity.user if "user" in identity.vouched else ""),
    )
