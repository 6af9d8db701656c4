"""kv.delete: deletes a key-value pair."""

from dataclasses import dataclass

from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.sources.instances import InstanceName, find_id
from memrelay.memory.recipes.sources.pairs import KvName
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class DeletePair:
    """The pair to delete."""

    instance: InstanceName
    """The id or the name of the key-value store."""
    namespace: KvName
    """The namespace."""
    key: KvName
    """The key."""


@dataclass(frozen=True, slots=True)
class PairDeleted:
    """The result of a deletion."""

    deleted: bool
    """Whether there was a pair."""


@operation("kv.delete", access="delete", mutates=True, home="recipes")
def delete(tx: Transaction, target: DeletePair, context: Context) -> PairDeleted:
    """Delete a pair. It cannot be restored.

    Raises RecordNotFound: when the store does not exist.
    """
    id_ = find_id(tx, "kv", target.instance)
    is_deleted = bool(tx.recipes.kv.delete(id_, target.namespace, target.key))
    if is_deleted:
        tx.feed.add("kv.deleted", id_, {"namespace": target.namespace, "key": target.key})
    return PairDeleted(is_deleted)
