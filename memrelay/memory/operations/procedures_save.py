"""procedures.save: writes a procedure under its name."""

from memrelay.memory.agents.procedures import ProcedureSaved, SaveProcedure, save_procedure
from memrelay.memory.operation import Context, operation
from memrelay.memory.sqlite.store import Transaction


@operation("procedures.save", access="write", mutates=True, home="memories", any_store=True)
def save(tx: Transaction, given: SaveProcedure, context: Context) -> ProcedureSaved:
    """Write a procedure under its name. The earlier one of the agent stays in the history.

    A retired procedure is in use again.

    Raises Refused: when the type or the source is unknown.
    Raises VersionConflict: when the procedure has another version.
    """
    return save_procedure(tx, given, context)
