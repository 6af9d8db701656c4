"""stores.configure: switches the memory of an agent on and off."""

from dataclasses import dataclass

from memrelay.memory.items.identity import StoreId
from memrelay.memory.operation import Context, operation
from memrelay.memory.sqlite.store import Transaction


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


@operation("stores.configure", access="admin", mutates=True, home="stores")
def configure_stores(
    tx: Transaction, given: ConfigureStores, context: Context
) -> AgentSettingsView:
    """Switch all memory of an agent, or a class of its stores, on or off, and return its settings.

    Calls that a switched-off class would allow are denied. The data stays.
    """
    changed = {
        name: value
        for name in ("enabled", "own", "chat", "user")
        if (value := getattr(given, name)) is not None
    }
    settings = tx.agent_settings.find(given.agent)._replace(**changed)
    if changed:
        tx.agent_settings.put(settings)
    return AgentSettingsView(*settings)
