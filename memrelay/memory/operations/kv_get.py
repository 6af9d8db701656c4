"""kv.get: reads key-value pairs by their keys."""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.sources.instances import InstanceName, find_id
from memrelay.memory.recipes.sources.pairs import KvName, value_of
from memrelay.memory.sqlite.store import Transaction
from memrelay.memory.timestamps import Moment, format_time

MOST_KEYS = 1000


@dataclass(frozen=True, slots=True)
class GetPairs:
    """The pairs to read."""

    instance: InstanceName
    """The id or the name of the key-value store."""
    namespace: KvName
    """The namespace."""
    keys: Annotated[tuple[KvName, ...], Field(min_length=1, max_length=MOST_KEYS)]
    """The keys."""


@dataclass(frozen=True, slots=True)
class FoundPair:
    """The value of a key."""

    key: str
    value: Any
    """The value; null if there is none."""
    exists: bool
    """Whether the key has a value, which may be null."""
    updated_at: Moment | None
    """When the pair was written; null without a pair."""


@dataclass(frozen=True, slots=True)
class FoundPairs:
    """One value for each key, in the order of the keys."""

    instance_id: str
    namespace: str
    items: tuple[FoundPair, ...]


@operation("kv.get", access="read", mutates=False, home="recipes")
def get(tx: Transaction, wanted: GetPairs, context: Context) -> FoundPairs:
    """Return the values of keys, in the order of the keys.

    Raises RecordNotFound: when the store does not exist.
    """
    id_ = find_id(tx, "kv", wanted.instance)
    pairs = tx.recipes.kv.get(id_, wanted.namespace, wanted.keys)
    items = []
    for key in wanted.keys:
        if (pair := pairs.get(key)) is None:
            items.append(FoundPair(key, None, exists=False, updated_at=None))
        else:
            changed = format_time(pair.updated_at)
            items.append(FoundPair(key, value_of(id_, pair), exists=True, updated_at=changed))
    return FoundPairs(id_, wanted.namespace, tuple(items))
