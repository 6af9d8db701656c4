"""Steps that leave out items."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Any, Literal

from memrelay.memory.models.recipes.execution.items import first_of_each
from memrelay.memory.models.recipes.execution.values import COMPARISONS, MISSING, get_field
from memrelay.memory.models.recipes.step import Items, StepCall, StepFailed, step

Operator = Literal[
    "eq", "neq", "gt", "lt", "gte", "lte", "contains", "startsWith", "endsWith", "in", "exists"
]
HOLDS: Mapping[str, Callable[[Any, Any], bool]] = {
    **COMPARISONS,
    "startsWith": COMPARISONS["starts_with"],
    "endsWith": COMPARISONS["ends_with"],
    "exists": lambda value, exists: (value is not MISSING) is exists,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Parameters of `filter`."""

    field: str
    """The field to compare, such as `payload.ms`."""
    operator: Operator
    """The comparison. Types are never converted; `neq` is the opposite of `eq`."""
    value: Any = dataclass_field(default_factory=lambda: MISSING)
    """The value to compare with. `in` needs a list; `exists` takes `true` (default) or `false`."""


@step("filter", "filter", reads=("list", "groups"))
def filter_items(params: Filter, call: StepCall) -> Items:
    """Return the items whose field compares with the value."""
    value = _check_value(params.operator, params.value)
    holds, path = HOLDS[params.operator], params.field
    return [item for item in call.items if holds(get_field(item, path), value)]


def _check_value(operator: str, value: Any) -> Any:
    if operator == "exists":
        value = True if value is MISSING else value
        if not isinstance(value, bool):
            raise StepFailed("bad_param", "the value of exists must be true or false")
    elif value is MISSING:
        raise StepFailed("bad_param", f"the operator {operator} needs a value")
    elif operator == "in" and not isinstance(value, list):
        raise StepFailed("bad_param", "the value of in must be a list")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Deduplicate:
    """Parameters of `deduplicate`."""

    field: str = "id"
    """The field whose values must differ. Items without it stay."""


@step("deduplicate", "filter", reads=("list", "groups"))
def deduplicate(params: Deduplicate, call: StepCall) -> Items:
    """Return the first item for each value of a field."""
    return first_of_each(call.items, params.field)
