"""procedures.get: reads a procedure by its name."""

from dataclasses import dataclass

from memrelay.memory.agents.procedures import (
    AgentId,
    ProcedureName,
    ProcedureView,
    get_procedure,
)
from memrelay.memory.agents.scopes import GLOBAL
from memrelay.memory.operation import Context, operation
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class GetProcedure:
    """The procedure to read."""

    id: ProcedureName
    """The id of the procedure, or the name of one that is in use."""
    agent_id: AgentId = GLOBAL
    """The agent that has a procedure of that name."""


@operation("procedures.get", access="read", mutates=False, home="memories", any_store=True)
def get(tx: Transaction, wanted: GetProcedure, context: Context) -> ProcedureView:
    """Return the procedure with that id, else the agent's procedure of that name.

    Raises RecordNotFound: when there is no such procedure, or that of the name is not in use.
    """
    return get_procedure(tx, wanted.agent_id, wanted.id)
