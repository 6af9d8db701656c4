"""procedures.match: finds the procedure that applies to a goal."""

from dataclasses import dataclass, field
from typing import Any

from memrelay.memory.agents.procedures import AgentId, Goal, ProcedureView, match_procedure
from memrelay.memory.agents.scopes import GLOBAL
from memrelay.memory.operation import Context, operation
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class MatchProcedure:
    """The goal for which to find a procedure."""

    goal: Goal
    """What the agent wants to do. Case does not matter."""
    context: dict[str, Any] = field(default_factory=dict)
    """What the agent knows; conditions ask for its keys."""
    agent_id: AgentId = GLOBAL
    """The agent whose procedures are considered; `global` covers all agents."""


@dataclass(frozen=True, slots=True)
class ProcedureMatch:
    """The procedure that applies."""

    procedure: ProcedureView | None
    """The procedure; null if none applies."""


@operation("procedures.match", access="read", mutates=False, home="memories", any_store=True)
def match(tx: Transaction, wanted: MatchProcedure, context: Context) -> ProcedureMatch:
    """Find the procedure that applies to a goal and succeeded most often.

    A procedure without conditions, or with an unknown one, never applies.
    """
    return ProcedureMatch(match_procedure(tx, wanted.agent_id, wanted.goal, wanted.context))
