"""procedures.use: counts a use of a procedure."""

from memrelay.memory.agents.procedures import ProcedureView, UsedProcedure, use_procedure
from memrelay.memory.operation import Context, operation
from memrelay.memory.sqlite.store import Transaction


@operation("procedures.use", access="write", mutates=True, home="memories", any_store=True)
def use(tx: Transaction, used: UsedProcedure, context: Context) -> ProcedureView:
    """Count a use of a procedure with its outcome and duration. The count adds no history.

    Raises RecordNotFound: when the procedure does not exist.
    """
    return use_procedure(tx, used, context)
