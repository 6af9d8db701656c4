"""users.delete_many: deletes users by their ids, but not what belongs to them."""

from memrelay.memory.agents.deletion import Deleted, DeleteMany
from memrelay.memory.operation import Context, operation
from memrelay.memory.sqlite.store import Transaction


@operation("users.delete_many", access="delete", mutates=True, home="memories", any_store=True)
def delete_many(tx: Transaction, target: DeleteMany, context: Context) -> Deleted:
    """Delete users. Unknown ids are ignored. records.restore can undo it.

    Facts and episodes of the users stay; users.forget erases them too.
    """
    return Deleted(tx.users.delete(target.ids))
