"""The step `filter`."""

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

from memrelay.memory.models.recipes.execution.values import (
    MISSING,
    are_equal,
    get_field,
    is_less,
    is_less_or_equal,
)
from memrelay.memory.models.recipes.step import Items, StepCall, StepFailed, step

Operator = Literal[
    "eq", "neq", "gt", "lt", "gte", "lte", "contains", "startsWith", "endsWith", "in", "exists"
]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Parameters of `filter`."""

    field: str
    """The field to compare, such as `payload.ms`."""
    operator: Operator
    """The comparison. Types are never converted; `neq` is the opposite of `eq`."""
    value: Any = dataclasses.field(default_factory=lambda: MISSING)
    """The value to compare with. `in` needs a list; `exists` takes `true` (default) or `false`."""


@step("filter", "filter", reads=("list", "groups"))
def filter_items(params: Filter, call: StepCall) -> Items:
    """Return the items whose field compares with the value."""
    wanted = _check_value(params.operator, params.value)
    holds, path = HOLDS[params.operator], params.field
    return [item for item in call.items if holds(get_field(item, path), wanted)]


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


def _contains(found: Any, wanted: Any) -> bool:
    if isinstance(found, list):
        return any(are_equal(one, wanted) for one in found)
    return isinstance(found, str) and isinstance(wanted, str) and wanted in found


def _starts_with(found: Any, wanted: Any) -> bool:
    return isinstance(found, str) and isinstance(wanted, str) and found.startswith(wanted)


def _ends_with(found: Any, wanted: Any) -> bool:
    return isinstance(found, str) and isinstance(wanted, str) and found.endswith(wanted)


HOLDS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": are_equal,
    "neq": lambda found, wanted: not are_equal(found, wanted),
    "gt": lambda found, wanted: is_less(wanted, found),
    "lt": is_less,
    "gte": lambda found, wanted: is_less_or_equal(wanted, found),
    "lte": is_less_or_equal,
    "contains": _contains,
    "startsWith": _starts_with,
    "endsWith": _ends_with,
    "in": lambda found, wanted: any(are_equal(found, one) for one in wanted),
    "exists": lambda found, wanted: (found is not MISSING) is wanted,
}
