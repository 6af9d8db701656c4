"""Key-value pairs as operations return them."""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from memrelay.memory.recipes.sources.json_value import from_json
from memrelay.memory.recipes.sources.kv_table import Pair
from memrelay.memory.timestamps import Moment, format_time

KvName = Annotated[str, Field(min_length=1, max_length=512, pattern=r"^[^\x00]*$")]


@dataclass(frozen=True, slots=True)
class PairView:
    """A key-value pair."""

    instance_id: str
    namespace: str
    key: str
    value: Any
    updated_at: Moment


def view_pair(instance: str, pair: Pair) -> PairView:
    """Return the view of a pair. Raises RecordDamaged."""
    return PairView(
        instance,
        pair.namespace,
        pair.key,
        value_of(instance, pair),
        format_time(pair.updated_at),
    )


def value_of(instance: str, pair: Pair) -> Any:
    """Return the value of a pair. Raises RecordDamaged."""
    return from_json(pair.value, f"the value of {instance}/{pair.namespace}/{pair.key}")
