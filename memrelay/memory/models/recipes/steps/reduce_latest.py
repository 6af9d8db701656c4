"""The step `reduce_latest`."""

from dataclasses import dataclass

from memrelay.memory.models.recipes.execution.items import first_of_each, sort_descending
from memrelay.memory.models.recipes.execution.values import MISSING, get_field
from memrelay.memory.models.recipes.step import Items, StepCall, step


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceLatest:
    """Parameters of `reduce_latest`."""

    entity_field: str = "id"
    """The field that names the entity, such as `payload.service`."""
    sort_field: str = "timestamp"
    """The field by which the latest item is found."""


@step("reduce_latest", "aggregation", reads=("list", "groups"))
def reduce_latest(params: ReduceLatest, call: StepCall) -> Items:
    """Return the latest item of each entity, the newest first."""
    entity = params.entity_field
    found = [item for item in call.items if get_field(item, entity) is not MISSING]
    if lacking := len(call.items) - len(found):
        call.warn("no_entity", f"items without {entity}, left out: {lacking}")
    return first_of_each(sort_descending(found, params.sort_field), entity)
