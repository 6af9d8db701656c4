"""kv.namespaces: lists the namespaces of a key-value store."""

from dataclasses import dataclass

from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.sources.instances import MOST_NAMES, InstanceName, find_id
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class ListNamespaces:
    """The store whose namespaces are listed."""

    instance: InstanceName
    """The id or the name of the key-value store."""


@dataclass(frozen=True, slots=True)
class Namespaces:
    """The namespaces of a store."""

    items: tuple[str, ...]
    """Their names in order, at most 1,000."""


@operation("kv.namespaces", access="read", mutates=False, home="recipes")
def namespaces(tx: Transaction, wanted: ListNamespaces, context: Context) -> Namespaces:
    """List the namespaces that have pairs.

    Raises RecordNotFound: when the store does not exist.
    """
    id_ = find_id(tx, "kv", wanted.instance)
    return Namespaces(tuple(tx.recipes.kv.namespaces(id_, MOST_NAMES)))
