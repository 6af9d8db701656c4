"""checkpoints.prune: deletes old checkpoints of threads."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from memrelay.memory.agents.checkpoint_input import Name, Names
from memrelay.memory.agents.checkpoint_pruning import prune_thread
from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.checkpoints_delete import CheckpointsDeleted
from memrelay.memory.records.data import LARGEST
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class PruneThreads:
    """The threads to prune."""

    threads: Names
    """The ids of the threads."""
    agent: Name = ""
    """The agent of the threads."""
    strategy: Literal["keep_latest", "delete"] = "keep_latest"
    """`keep_latest` keeps the newest checkpoints of each namespace, and earlier ones from which
    their values are rebuilt. `delete` deletes the threads."""
    keep: Annotated[int, Field(ge=1, le=LARGEST)] = 1
    """The number of checkpoints that `keep_latest` keeps in each namespace."""


@operation("checkpoints.prune", access="delete", mutates=True, home="memories", any_store=True)
def prune(tx: Transaction, given: PruneThreads, context: Context) -> CheckpointsDeleted:
    """Delete the old checkpoints of threads with their writes. Unknown threads are ignored."""
    table = tx.checkpoints
    if given.strategy == "delete":
        deleted = sum(table.delete_thread(given.agent, thread) for thread in given.threads)
    else:
        deleted = sum(
            prune_thread(table, given.agent, thread, given.keep) for thread in given.threads
        )
    return CheckpointsDeleted(deleted)
