"""kv.set: writes a key-value pair."""

from dataclasses import dataclass
from typing import Any

from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.sources.instances import InstanceName, ensure_id
from memrelay.memory.recipes.sources.json_value import to_json
from memrelay.memory.recipes.sources.kv_table import Pair
from memrelay.memory.recipes.sources.pairs import KvName, PairView, view_pair
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class SetPair:
    """A pair to write."""

    instance: InstanceName
    """The id or the name of the key-value store."""
    namespace: KvName
    """A part of the store with separate keys."""
    key: KvName
    """The key."""
    value: Any
    """The value: any JSON, at most 256 KiB."""
    auto_create: bool = False
    """Whether a missing store is created."""


@operation("kv.set", access="write", mutates=True, home="recipes")
def set_pair(tx: Transaction, given: SetPair, context: Context) -> PairView:
    """Write a pair. A new value replaces that of the key.

    Raises RecordNotFound: when the store does not exist and is not created.
    Raises BadValue: when JSON cannot express the value, or it is nested too deeply.
    Raises ValueTooLarge: when the value is too large.
    """
    pair = Pair(given.namespace, given.key, to_json(given.value), context.now_ms)
    id_ = ensure_id(tx, "kv", given.instance, context, create=given.auto_create)
    tx.recipes.kv.set(id_, pair)
    tx.feed.add("kv.set", id_, {"namespace": given.namespace, "key": given.key})
    return view_pair(id_, pair)
