"""procedures.retire: takes a procedure out of use."""

from dataclasses import dataclass

from memrelay.memory.agents.procedures import ProcedureView, fetch_procedure, retire_procedure
from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_update import check_version
from memrelay.memory.records.view import Guid, Reason, Versions
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class RetireProcedure:
    """The procedure to take out of use."""

    id: Guid
    """The id of the procedure."""
    reason: Reason = ""
    """The reason, kept in the history."""
    if_version: Versions = ()
    """Retire only if the procedure has one of these versions."""


@operation("procedures.retire", access="write", mutates=True, home="memories", any_store=True)
def retire(tx: Transaction, target: RetireProcedure, context: Context) -> ProcedureView:
    """Take a procedure out of use. It stays in lists, and a save puts it into use again.

    Raises RecordNotFound: when the procedure does not exist.
    Raises VersionConflict: when the procedure has another version.
    """
    state = fetch_procedure(tx, target.id).whole
    check_version(state.record, state.further, target.if_version)
    return retire_procedure(tx, target.id)
