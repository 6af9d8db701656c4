"""episodes.delete_many: deletes episodes by their ids."""

from memrelay.memory.agents.deletion import Deleted, DeleteMany
from memrelay.memory.operation import Context, operation
from memrelay.memory.sqlite.store import Transaction


@operation("episodes.delete_many", access="delete", mutates=True, home="memories", any_store=True)
def delete_many(tx: Transaction, target: DeleteMany, context: Context) -> Deleted:
    """Delete episodes with their steps. Unknown ids are ignored. records.restore can undo it."""
    places = [tx.episodes.by_guid(guid) for guid in dict.fromkeys(target.ids)]
    found = [place for place in places if place is not None]
    for place in found:
        tx.episodes.delete_with_steps(place)
    return Deleted(len(found))
