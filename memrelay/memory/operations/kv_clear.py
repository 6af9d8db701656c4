"""kv.clear: deletes all pairs of a namespace."""

from dataclasses import dataclass

from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.sources.instances import InstanceName, find_id
from memrelay.memory.recipes.sources.pairs import KvName
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class ClearNamespace:
    """The namespace to clear."""

    instance: InstanceName
    """The id or the name of the key-value store."""
    namespace: KvName
    """The namespace."""


@dataclass(frozen=True, slots=True)
class PairsDeleted:
    """The result of a deletion."""

    deleted: int
    """The number of deleted pairs."""


@operation("kv.clear", access="delete", mutates=True, home="recipes")
def clear(tx: Transaction, target: ClearNamespace, context: Context) -> PairsDeleted:
    """Delete all pairs of a namespace. They cannot be restored.

    Raises RecordNotFound: when the store does not exist.
    """
    id_ = find_id(tx, "kv", target.instance)
    deleted = tx.recipes.kv.delete(id_, target.namespace)
    if deleted:
        tx.feed.add("kv.cleared", id_, {"namespace": target.namespace})
    return PairsDeleted(deleted)
