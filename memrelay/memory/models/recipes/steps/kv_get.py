"""The step `kv_get`."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memrelay.memory.models.recipes.execution.items import compact
from memrelay.memory.models.recipes.instances import InstanceName
from memrelay.memory.models.recipes.kv import KvName, value_of
from memrelay.memory.models.recipes.records import RecipeTables
from memrelay.memory.models.recipes.sources.step_instance import require_instance
from memrelay.memory.models.recipes.step import Items, StepCall, step


@dataclass(frozen=True, slots=True)
class KvGet:
    """Parameters of `kv_get`."""

    instance: InstanceName
    """The id or the name of the key-value store."""
    namespace: KvName
    """The namespace."""
    keys: Annotated[tuple[KvName, ...], Field(max_length=1000)]
    """The keys, in the order of the items."""


@step("kv_get", "retrieval")
def kv_get(params: KvGet, call: StepCall) -> Items:
    """Read the values of keys, in the order of the keys. A missing key gives a warning."""
    id_ = require_instance(call, "kv", params.instance)
    pairs = call.tx.table(RecipeTables).kv.get(id_, params.namespace, params.keys)
    items = []
    for key in params.keys:
        if (pair := pairs.get(key)) is None:
            place = f"{params.instance}/{params.namespace}"
            call.warn("missing_key", f'{place} has no key "{key}"')
            continue
        value = value_of(id_, pair)
        item = {"id": f"{params.namespace}/{key}", "key": key, "value": value}
        items.append({**item, "text": compact(value)})
    return items
