"""Conditions of policies as Python functions: filters (docs/filters.md) over a record that is not
written yet, and conditions on the origin of the write.

Filters hold for the same records as the SQL of engine/filter_sql.py.
"""

import operator
from collections.abc import Callable
from typing import Any, cast

import orjson

from memrelay.memory.engine.origins import Origin
from memrelay.memory.engine.versions import State
from memrelay.memory.records.filters import AllOf, AnyOf, Condition, Node, Not, parse_filter

Holds = Callable[[State], bool]
# Takes the values of an Origin.
Comes = Callable[[tuple[str, ...]], bool]
WEBHOOK, JWT, VERIFIED, UNVERIFIED = "webhook", "jwt:", "verified", "unverified"
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq,
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}


class _Missing:
    """Stands for a key that `data` does not have."""


MISSING = _Missing()


def compile_filter(given: dict[str, Any]) -> Holds:
    """Return whether a filter holds for a record, as a function.

    Raises ValidationError: the filter is invalid.
    """
    return _compile(parse_filter(given))


def list_fields(given: dict[str, Any]) -> set[str]:
    """Return the fields of a record that a valid filter compares."""
    fields, open_nodes = set[str](), [parse_filter(given)]
    while open_nodes:
        match open_nodes.pop():
            case AllOf(parts) | AnyOf(parts):
                open_nodes += parts
            case Not(part):
                open_nodes.append(part)
            case Condition() as condition:
                fields.add(condition.field)
    return fields


def _compile(node: Node) -> Holds:
    match node:
        case AllOf(parts):
            conditions = [_compile(part) for part in parts]
            return lambda state: all(holds(state) for holds in conditions)
        case AnyOf(parts):
            alternatives = [_compile(part) for part in parts]
            return lambda state: any(holds(state) for holds in alternatives)
        case Not(part):
            inner = _compile(part)
            return lambda state: not inner(state)
        case Condition("data"):
            return _compile_data(node)
        case Condition("tags"):
            return _compile_tags(node)
    return _compile_field(node)


def _compile_field(node: Condition) -> Holds:
    value: Any = node.value
    at = State._fields.index(node.field)
    match node.operator:
        case "eq":
            return lambda state: state[at] == value
        case "in":
            values = frozenset(value)
            return lambda state: state[at] in values
        case "exists":
            return lambda state: state[at] is not None
        case "contains":
            return lambda state: value in cast(str, state[at]) if state[at] is not None else False
    compare = COMPARISONS[node.operator]
    return lambda state: state[at] is not None and bool(compare(state[at], value))


def _compile_tags(node: Condition) -> Holds:
    if node.operator == "exists":
        return lambda _: True
    wanted: Any = node.value
    return lambda state: state.tags != "[]" and wanted in orjson.loads(state.tags)


def _compile_data(node: Condition) -> Holds:
    matches = _compile_json(node.operator, node.value)
    path = node.path

    def holds(state: State) -> bool:
        value: Any = MISSING if state.data is None else orjson.loads(state.data)
        for step in path:
            value = value.get(step, MISSING) if isinstance(value, dict) else MISSING
        return matches(value)

    return holds


def _compile_json(name: str, wanted: Any) -> Callable[[Any], bool]:
    match name:
        case "exists":
            return lambda value: value is not MISSING
        case "eq":
            return lambda value: _equals(value, wanted)
        case "in":
            return lambda value: any(_equals(value, one) for one in wanted)
        case "contains":
            return lambda value: _contains(value, wanted)
    compare, is_text = COMPARISONS[name], isinstance(wanted, str)
    return lambda value: (
        (isinstance(value, str) if is_text else _is_number(value)) and bool(compare(value, wanted))
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _equals(value: Any, wanted: Any) -> bool:
    """Return whether a JSON value has the type and the value. A missing value is null."""
    if wanted is None:
        return value is None or value is MISSING
    if isinstance(wanted, bool):
        return value is wanted
    if isinstance(wanted, str):
        return isinstance(value, str) and value == wanted
    return _is_number(value) and bool(value == wanted)


def _contains(value: Any, wanted: Any) -> bool:
    if isinstance(value, str):
        return isinstance(wanted, str) and wanted in value
    return isinstance(value, list) and any(
        one is None if wanted is None else _equals(one, wanted) for one in value
    )


def compile_origin(wanted: dict[str, Any]) -> Comes:
    """Return whether a condition on the origin holds, as a function."""
    tests = list[Callable[[Origin], bool]]()
    if "verified" in wanted:
        is_verified = wanted["verified"]
        tests.append(lambda origin: (origin.verdict == VERIFIED) == is_verified)
    if "by" in wanted:
        writers = frozenset(wanted["by"])
        tests.append(lambda origin: not writers.isdisjoint(_list_writers(origin)))
    if "profile" in wanted:
        profiles = wanted["profile"], f"{WEBHOOK}:{wanted['profile']}"
        tests.append(lambda origin: origin.profile in profiles)
    return lambda values: all(test(Origin(*values)) for test in tests)


def _list_writers(origin: Origin) -> list[str]:
    """Return what has caused a write, in the words of `by`."""
    found = []
    if origin.key:
        found.append("jwt" if origin.key.startswith(JWT) else "key")
    # The turn of an agent has its own profile, and the verdict of the webhook that led to it.
    if origin.profile.partition(":")[0] == WEBHOOK or origin.verdict in (VERIFIED, UNVERIFIED):
        found.append(WEBHOOK)
    if origin.agent or origin.model:
        found.append("agent" if origin.model else "block")
    return found
