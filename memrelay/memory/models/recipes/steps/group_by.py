"""The step `group_by`."""

from dataclasses import dataclass

from memrelay.memory.models.recipes.execution.items import compact
from memrelay.memory.models.recipes.execution.values import MISSING, get_field
from memrelay.memory.models.recipes.step import Items, StepCall, step


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupBy:
    """Parameters of `group_by`."""

    field: str
    """The field whose value names the group. Items without it form the group `""`."""


@step("group_by", "aggregation", reads=("list", "groups"), returns=("groups",))
def group_by(params: GroupBy, call: StepCall) -> dict[str, Items]:
    """Return the items in groups of equal values, in the order of their first items."""
    groups: dict[str, Items] = {}
    for item in call.items:
        value = get_field(item, params.field)
        groups.setdefault("" if value is MISSING else compact(value), []).append(item)
    return groups
