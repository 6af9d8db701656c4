"""The step `deduplicate`."""

from dataclasses import dataclass

from memrelay.memory.models.recipes.execution.items import first_of_each
from memrelay.memory.models.recipes.step import Items, StepCall, step


@dataclass(frozen=True, slots=True, kw_only=True)
class Deduplicate:
    """Parameters of `deduplicate`."""

    field: str = "id"
    """The field whose values must differ. Items without it stay."""


@step("deduplicate", "filter", reads=("list", "groups"))
def deduplicate(params: Deduplicate, call: StepCall) -> Items:
    """Return the first item for each value of a field."""
    return first_of_each(call.items, params.field)
