"""Stores of agents, users and chats: their ids, and which of them an agent can use."""

from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

from memrelay.memory.engine.identity import MAX_ID_CHARACTERS, ContextId, Identity, StoreId
from memrelay.memory.engine.store import Transaction
from memrelay.memory.models.shared_stores.access import StoreAccess, list_accessible
from memrelay.memory.models.shared_stores.table import AgentSettingsTable
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.paging import Limit

HASH_BYTES = 24


def user_store(user: str) -> str:
    """Return the id of a user's store."""
    return _fit("user:", user)


def chat_store(pipeline: str, swarm: str) -> str:
    """Return the id of the store of a swarm."""
    return _fit("chat:", f"{pipeline}/{swarm}")


def agent_store(agent: str) -> str:
    """Return the id of an agent, which is also the id of its own store."""
    return _fit("", agent)


@lru_cache(1024)
def _fit(prefix: str, name: str) -> str:
    """Return prefix and name. A name that is too long is hashed."""
    if len(prefix) + len(name) <= MAX_ID_CHARACTERS:
        return prefix + name
    return prefix + blake2b(name.encode(), digest_size=HASH_BYTES).hexdigest()


@dataclass(frozen=True, slots=True)
class ConfigureStores:
    """The settings of an agent. Omitted ones keep their values."""

    agent: StoreId
    """The agent."""
    enabled: bool | None = None
    """Whether it has memory at all."""
    own: bool | None = None
    """Whether it may use its own store."""
    chat: bool | None = None
    """Whether it may use the stores of its chats."""
    user: bool | None = None
    """Whether it may use the stores of its users."""


@dataclass(frozen=True, slots=True)
class AgentSettingsView:
    """The settings of an agent."""

    agent: str
    enabled: bool
    own: bool
    chat: bool
    user: bool


@operation("stores.configure", access="admin", mutates=True, store="stores")
def configure_stores(
    tx: Transaction, request: ConfigureStores, context: Context
) -> AgentSettingsView:
    """Switch all memory of an agent, or a class of its stores, on or off, and return its settings.

    Calls that a switched-off class would allow are denied. The data stays.
    """
    changed = {
        name: value
        for name in ("enabled", "own", "chat", "user")
        if (value := getattr(request, name)) is not None
    }
    settings = tx.table(AgentSettingsTable).find(request.agent)._replace(**changed)
    if changed:
        tx.table(AgentSettingsTable).put(settings)
    return AgentSettingsView(*settings)


@dataclass(frozen=True, slots=True)
class ListStores(Identity):
    """The agent whose stores to list, and the page."""

    limit: Limit = 100
    """The maximum number of stores. A page may have fewer."""
    cursor: ContextId = ""
    """The `next_cursor` of the previous page, with the same agent, user and chat."""


@dataclass(frozen=True, slots=True)
class StorePage:
    """A page of an agent's stores: its own, the current chat and user, then the others by id."""

    stores: tuple[StoreAccess, ...]
    next_cursor: str | None
    """The cursor of the next page; null on the last page."""


@operation("stores.list", access="read", mutates=False, store="stores")
def list_stores(tx: Transaction, request: ListStores, context: Context) -> StorePage:
    """List the stores that the agent can use, with its level of access to each."""
    stores, more = list_accessible(tx, request, request.cursor, request.limit)
    return StorePage(tuple(stores), more)
