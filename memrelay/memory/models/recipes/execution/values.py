"""Look up fields of JSON values by dotted paths, and compare values without conversion."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final


class _Missing:
    """The type of MISSING."""

    def __repr__(self) -> str:
        return "MISSING"


# Stands for a value that does not exist, unlike a stored null.
MISSING: Final = _Missing()


def get_field(item: Any, path: str) -> Any:
    """Return the field of an item, MISSING if it does not exist. A key may contain dots."""
    if path in item:
        return item[path]
    return get_path(item, path.split(".")) if "." in path else MISSING


def get_path(value: Any, keys: Sequence[str]) -> Any:
    """Follow keys of objects and positions in lists. Return MISSING if one does not exist."""
    for key in keys:
        if isinstance(value, dict):
            value = value.get(key, MISSING)
        elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            return MISSING
    return value


def is_number(value: Any) -> bool:
    """Return whether a JSON value is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def are_equal(left: Any, right: Any) -> bool:
    """Return whether two scalars have one type and are equal. MISSING equals null."""
    if left is MISSING or left is None:
        return right is None or right is MISSING
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return _are_alike(left, right) and bool(left == right)


def is_less(left: Any, right: Any) -> bool:
    """Return whether both are numbers or both are texts, and the left one comes first."""
    return _are_alike(left, right) and bool(left < right)


def is_less_or_equal(left: Any, right: Any) -> bool:
    """Return whether both are numbers or both are texts, and the right one is not smaller."""
    return _are_alike(left, right) and bool(left <= right)


def _are_alike(left: Any, right: Any) -> bool:
    if isinstance(left, str):
        return isinstance(right, str)
    return is_number(left) and is_number(right)


def _contains(value: Any, part: Any) -> bool:
    """Return whether a text contains a text, or a list has an equal element."""
    if isinstance(value, list):
        return any(are_equal(element, part) for element in value)
    return isinstance(value, str) and isinstance(part, str) and part in value


def _starts_with(value: Any, start: Any) -> bool:
    return isinstance(value, str) and isinstance(start, str) and value.startswith(start)


def _ends_with(value: Any, end: Any) -> bool:
    return isinstance(value, str) and isinstance(end, str) and value.endswith(end)


def _is_in(value: Any, elements: list[Any]) -> bool:
    return any(are_equal(value, element) for element in elements)


# How rules, conditions and the step `filter` compare a value with another one.
COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "eq": are_equal,
    "neq": lambda left, right: not are_equal(left, right),
    "gt": lambda left, right: is_less(right, left),
    "gte": lambda left, right: is_less_or_equal(right, left),
    "lt": is_less,
    "lte": is_less_or_equal,
    "contains": _contains,
    "starts_with": _starts_with,
    "ends_with": _ends_with,
    "in": _is_in,
}
