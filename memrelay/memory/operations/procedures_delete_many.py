"""procedures.delete_many: deletes procedures by their ids."""

from memrelay.memory.agents.deletion import Deleted, DeleteMany
from memrelay.memory.operation import Context, operation
from memrelay.memory.sqlite.store import Transaction


@operation("procedures.delete_many", access="delete", mutates=True, home="memories", any_store=True)
def delete_many(tx: Transaction, target: DeleteMany, context: Context) -> Deleted:
    """Delete procedures. Unknown ids are ignored. records.restore can undo each deletion."""
    return Deleted(tx.procedures.delete(target.ids))
