"""kv.count: counts the pairs of a key-value store."""

from dataclasses import dataclass

from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.sources.instances import InstanceName, find_id
from memrelay.memory.recipes.sources.pairs import KvName
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class CountPairs:
    """The pairs to count."""

    instance: InstanceName
    """The id or the name of the key-value store."""
    namespace: KvName | None = None
    """Only pairs of this namespace."""


@dataclass(frozen=True, slots=True)
class PairCount:
    """The number of pairs."""

    count: int


@operation("kv.count", access="read", mutates=False, home="recipes")
def count(tx: Transaction, wanted: CountPairs, context: Context) -> PairCount:
    """Count the pairs of a store or of a namespace.

    Raises RecordNotFound: when the store does not exist.
    Raises SearchTooLong: when the count exceeds the time limit.
    """
    id_ = find_id(tx, "kv", wanted.instance)
    with tx.bounded_search():
        return PairCount(tx.recipes.kv.count(id_, wanted.namespace))
