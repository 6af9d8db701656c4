"""checkpoints.forget_runs: deletes the checkpoints of runs."""

from dataclasses import dataclass

from memrelay.memory.agents.checkpoint_input import Name, Names
from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.checkpoints_delete import CheckpointsDeleted
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class ForgetRuns:
    """The runs to forget."""

    runs: Names
    """Their ids, as in the `run_id` of the metadata."""
    agent: Name | None = None
    """Only those of this agent; null for all."""


@operation("checkpoints.forget_runs", access="admin", mutates=True, home="memories", any_store=True)
def forget_runs(tx: Transaction, given: ForgetRuns, context: Context) -> CheckpointsDeleted:
    """Delete the checkpoints of runs with their writes. Unknown runs are ignored."""
    table = tx.checkpoints
    agents = table.agents() if given.agent is None else [given.agent]
    return CheckpointsDeleted(table.delete([one.key for one in table.of_runs(agents, given.runs)]))
