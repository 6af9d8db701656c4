"""Evaluate rules: which recipes the enabled engines add for the given inputs."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from memrelay.memory.models.recipes.assembly.engines import Engine, Rule, RuleCondition
from memrelay.memory.models.recipes.assembly.patterns import matches
from memrelay.memory.models.recipes.execution.values import (
    MISSING,
    are_equal,
    is_less,
    is_less_or_equal,
)

Compare = Callable[[Any, Any], bool]


@dataclass(frozen=True, slots=True)
class MatchedRule:
    """A rule whose conditions hold."""

    engine_id: str
    """The engine of the rule."""
    rule_id: str
    """The rule."""
    rule_name: str
    """The name of the rule; "" for none."""
    priority: int
    """The priority of the rule."""
    add_memories: tuple[str, ...]
    """The recipes that the rule adds."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The rules that hold, and the fields that were read."""

    # The highest priority first, then in the order of engines and rules.
    matched: tuple[MatchedRule, ...]
    # Fields of conditions that have a value, each once.
    used: tuple[str, ...]


def evaluate_rules(engines: Iterable[Engine], values: Mapping[str, Any]) -> Evaluation:
    """Evaluate all rules of the engines. `values` are the inputs by the names of fields."""
    matched, used = list[MatchedRule](), dict[str, None]()
    for engine in engines:
        for rule in sorted(engine.rules, key=lambda one: -one.priority):
            used |= {one.field: None for one in rule.when if one.field in values}
            if all(_holds(one, values) for one in rule.when):
                matched.append(_match(engine, rule))
    matched.sort(key=lambda one: -one.priority)
    return Evaluation(tuple(matched), tuple(used))


def _match(engine: Engine, rule: Rule) -> MatchedRule:
    return MatchedRule(engine.id, rule.id, rule.name, rule.priority, rule.then.add_memories)


def _holds(condition: RuleCondition, values: Mapping[str, Any]) -> bool:
    given = values.get(condition.field, MISSING)
    return COMPARISONS[condition.operator](given, condition.value)


def _contains(given: Any, wanted: Any) -> bool:
    if isinstance(given, list):
        return any(are_equal(one, wanted) for one in given)
    return isinstance(given, str) and isinstance(wanted, str) and wanted in given


def _is_in(given: Any, wanted: list[Any]) -> bool:
    return any(are_equal(given, one) for one in wanted)


COMPARISONS: Mapping[str, Compare] = {
    "exists": lambda given, _: given is not MISSING,
    "not_exists": lambda given, _: given is MISSING,
    "eq": are_equal,
    "neq": lambda given, wanted: not are_equal(given, wanted),
    "in": _is_in,
    "not_in": lambda given, wanted: not _is_in(given, wanted),
    "contains": _contains,
    "starts_with": lambda given, wanted: isinstance(given, str) and given.startswith(wanted),
    "ends_with": lambda given, wanted: isinstance(given, str) and given.endswith(wanted),
    "gt": lambda given, wanted: is_less(wanted, given),
    "gte": lambda given, wanted: is_less_or_equal(wanted, given),
    "lt": is_less,
    "lte": is_less_or_equal,
    "regex": lambda given, wanted: isinstance(given, str) and matches(wanted, given),
}
