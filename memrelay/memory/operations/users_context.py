"""users.context: returns identity, preferences, facts and history of a user."""

from dataclasses import dataclass

from memrelay.memory.agents.people.user_context import UserContext, user_context
from memrelay.memory.agents.scopes import OptionalId
from memrelay.memory.agents.users import UserId
from memrelay.memory.operation import Context, operation
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class ReadContext:
    """The user whose context is returned."""

    id: UserId
    """The canonical id, `channel:id`, or the id of the user's record."""
    agent_id: OptionalId = ""
    """Limits the history to episodes of this agent. By default all agents."""


@operation("users.context", access="read", mutates=False, home="memories", any_store=True)
def read_context(tx: Transaction, wanted: ReadContext, context: Context) -> UserContext:
    """Return identity, preferences, facts and history of a user. An unknown user is new."""
    return user_context(tx, wanted.id, wanted.agent_id)
