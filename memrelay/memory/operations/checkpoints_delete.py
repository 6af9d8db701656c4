"""checkpoints.delete: deletes threads, and single checkpoints."""

from dataclasses import dataclass

from memrelay.memory.agents.checkpoint_input import Name, Names
from memrelay.memory.operation import Context, operation
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class DeleteCheckpoints:
    """The checkpoints to delete."""

    threads: Names = ()
    """Threads, with all their checkpoints and writes."""
    ids: Names = ()
    """Ids of single checkpoints. Their children get their parents."""
    agent: Name | None = None
    """Only those of this agent; null for all."""


@dataclass(frozen=True, slots=True)
class CheckpointsDeleted:
    """The result."""

    deleted: int
    """The number of checkpoints that were deleted."""


@operation("checkpoints.delete", access="delete", mutates=True, home="memories", any_store=True)
def delete(tx: Transaction, given: DeleteCheckpoints, context: Context) -> CheckpointsDeleted:
    """Delete threads and single checkpoints with their writes. Unknown ids are ignored."""
    table, deleted = tx.checkpoints, 0
    agents = table.agents() if given.agent is None else [given.agent]
    for agent in agents:
        deleted += sum(table.delete_thread(agent, thread) for thread in given.threads)
    if given.ids:
        deleted += table.delete([one.key for one in table.with_ids(agents, given.ids)])
    return CheckpointsDeleted(deleted)
