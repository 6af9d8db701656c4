"""Rule engines: named lists of rules that add recipes to an assembly. Checks their definitions."""

import re
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import orjson
from pydantic import WithJsonSchema

from memrelay.memory.models.recipes.assembly.faults import InputFaults
from memrelay.memory.models.recipes.assembly.inputs import ADDITIONAL_NAME, TEXT_FIELD
from memrelay.memory.models.recipes.assembly.patterns import pattern_fault
from memrelay.memory.models.recipes.execution.values import is_number
from memrelay.memory.models.recipes.faults import quoted, suggest
from memrelay.memory.models.recipes.scopes import scope_fault
from memrelay.memory.records.data import text_fault
from memrelay.memory.validation import Place

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
ID_RULE = "1 to 64 letters, digits, `.`, `_` and `-`, and begins with a letter or digit"
PRESENCE = ("exists", "not_exists")
EQUALITY = ("eq", "neq")
MEMBERSHIP = ("in", "not_in")
ORDER = ("gt", "gte", "lt", "lte")
TEXTS = ("starts_with", "ends_with")
OPERATORS = (*PRESENCE, *EQUALITY, *MEMBERSHIP, "contains", *TEXTS, *ORDER, "regex")
MAX_RULES, MAX_CONDITIONS, MAX_MEMORIES = 100, 20, 50
MAX_VALUES = 256
MAX_NAME, MAX_DESCRIPTION, MAX_VALUE = 256, 2000, 2000
MAX_PRIORITY = 1_000_000
MAX_BYTES = 1 << 16
ENGINE_KEYS = ("id", "name", "description", "enabled", "rules")
RULE_KEYS = ("id", "name", "priority", "when", "then")
# Types of input fields whose faults `check_engine` collects.
RuleList = Annotated[Any, WithJsonSchema({"type": "array", "items": {"type": "object"}})]
Enabled = Annotated[Any, WithJsonSchema({"type": "boolean"})]
EnabledOrNull = Annotated[Any, WithJsonSchema({"anyOf": [{"type": "boolean"}, {"type": "null"}]})]
RuleListOrNull = Annotated[
    Any,
    WithJsonSchema({"anyOf": [{"type": "array", "items": {"type": "object"}}, {"type": "null"}]}),
]


@dataclass(frozen=True, slots=True)
class RuleCondition:
    """A condition of a rule."""

    field: str
    """`scope.SCOPE.VARIABLE`, `addVar.NAME` or `input.text`."""
    operator: str
    """The comparison, for example `eq`."""
    value: Any
    """The value to compare with; null for `exists` and `not_exists`."""


@dataclass(frozen=True, slots=True)
class RuleAction:
    """The action of a rule whose conditions hold."""

    add_memories: tuple[str, ...]
    """The ids of the recipes to run."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule."""

    id: str
    """The id of the rule, unique in its engine."""
    name: str
    """A name for people; "" for none."""
    priority: int
    """Rules with a higher priority come first."""
    when: tuple[RuleCondition, ...]
    """The conditions. All must hold; a rule without conditions always holds."""
    then: RuleAction
    """The action if all conditions hold."""


@dataclass(frozen=True, slots=True)
class Engine:
    """A rule engine."""

    id: str
    name: str
    description: str
    enabled: bool
    rules: tuple[Rule, ...]

    def as_json(self) -> str:
        """Return the engine as canonical JSON."""
        return orjson.dumps(asdict(self), option=orjson.OPT_SORT_KEYS).decode()


def load_engine(content: str) -> Engine:
    """Return a stored engine."""
    given = orjson.loads(content)
    return Engine(**given | {"rules": tuple(map(_load_rule, given["rules"]))})


def _load_rule(given: dict[str, Any]) -> Rule:
    when = tuple(RuleCondition(**one) for one in given["when"])
    return Rule(**given | {"when": when, "then": RuleAction(tuple(given["then"]["add_memories"]))})


def check_engine(given: dict[str, Any], new_id: str) -> Engine:
    """Return the engine of a definition. `new_id` is its id if the definition has none.

    Raises InvalidInput: with every fault.
    """
    faults = InputFaults()
    engine = Engine(
        new_id if given["id"] is None else _check_id(given["id"], ("id",), faults),
        faults.take_text(given["name"], ("name",), MAX_NAME, needed=True),
        faults.take_text(given["description"], ("description",), MAX_DESCRIPTION),
        faults.take_boolean(given["enabled"], ("enabled",)),
        _check_rules(given["rules"], faults),
    )
    if not faults.found and len(engine.as_json().encode()) > MAX_BYTES:
        faults.add((), "too_large", f"the rule engine has more than {MAX_BYTES} bytes as JSON")
    faults.raise_any("the rule engine")
    return engine


def _check_id(given: Any, place: Place, faults: InputFaults) -> str:
    if not isinstance(given, str):
        faults.add(place, "bad_type", f"{place[-1]} must be a text")
        return ""
    if not ID.fullmatch(given):
        faults.add(place, "bad_id", f'"{given[:64]}" is no id: an id has {ID_RULE}')
    return given


def _check_rules(given: Any, faults: InputFaults) -> tuple[Rule, ...]:
    listed = faults.take_list(given, ("rules",), MAX_RULES)
    taken = {one["id"] for one in listed if isinstance(one, dict) and _is_text(one.get("id"))}
    rules, seen = list[Rule](), set[str]()
    for at, one in enumerate(listed):
        rule = _check_rule(one, ("rules", at), _free_id(taken, at), faults)
        if rule.id and rule.id in seen:
            place = ("rules", at, "id")
            faults.add(place, "duplicate_id", f'two rules have the id "{rule.id[:64]}"')
        seen.add(rule.id)
        taken.add(rule.id)
        rules.append(rule)
    return tuple(rules)


def _free_id(taken: set[str], at: int) -> str:
    numbers = range(at + 1, at + len(taken) + 2)
    return next(name for number in numbers if (name := f"rule-{number}") not in taken)


def _check_rule(given: Any, place: Place, new_id: str, faults: InputFaults) -> Rule:
    rule = faults.take_object(given, place, RULE_KEYS)
    if not isinstance(given, dict):
        return Rule("", "", 0, (), RuleAction(()))
    ident, priority = rule.get("id"), rule.get("priority", 0)
    listed = faults.take_list(rule.get("when", []), (*place, "when"), MAX_CONDITIONS)
    return Rule(
        new_id if ident is None else _check_id(ident, (*place, "id"), faults),
        faults.take_text(rule.get("name", ""), (*place, "name"), MAX_NAME),
        faults.take_integer(priority, (*place, "priority"), -MAX_PRIORITY, MAX_PRIORITY),
        tuple(_check_condition(one, (*place, "when", at), faults) for at, one in enumerate(listed)),
        RuleAction(_check_action(rule, place, faults)),
    )


def _check_action(rule: dict[str, Any], place: Place, faults: InputFaults) -> tuple[str, ...]:
    """Return the recipes that a rule adds. A valid id need not exist yet."""
    place = (*place, "then")
    if "then" not in rule:
        faults.add(place, "required", "then is missing; it is {add_memories: [id]}")
        return ()
    action = faults.take_object(rule["then"], place, ("add_memories",))
    place = (*place, "add_memories")
    added = action.get("add_memories", [])
    if added == [] and isinstance(rule["then"], dict):
        faults.add(place, "required", "add_memories needs at least one id of a recipe")
    listed = faults.take_list(added, place, MAX_MEMORIES)
    return tuple(_check_id(one, (*place, at), faults) for at, one in enumerate(listed))


def _check_condition(given: Any, place: Place, faults: InputFaults) -> RuleCondition:
    condition = faults.take_object(given, place, ("field", "operator", "value"))
    if not isinstance(given, dict):
        return RuleCondition("", "", None)
    operator = condition.get("operator")
    if operator is None:
        faults.add((*place, "operator"), "required", "operator is missing")
    elif operator not in OPERATORS:
        faults.add(
            (*place, "operator"),
            "bad_enum",
            f"unknown operator {quoted(operator)}{suggest(operator, OPERATORS)}",
        )
    else:
        _check_value(operator, condition, (*place, "value"), faults)
    return RuleCondition(
        _check_field(condition.get("field"), (*place, "field"), faults),
        str(operator),
        condition.get("value"),
    )


def _check_field(field: Any, place: Place, faults: InputFaults) -> str:
    """Return the field of a condition."""
    if field is None:
        faults.add(place, "required", "field is missing")
        return ""
    root, _, rest = str(field).partition(".")
    scope, _, name = rest.partition(".")
    if root == "scope":
        rule = scope_fault(scope, name)
    elif root == "addVar":
        rule = "" if ADDITIONAL_NAME.fullmatch(rest) else "a name has only a to z, 0 to 9 and _"
    else:
        rule = (
            "" if field == TEXT_FIELD else f"use scope.SCOPE.VARIABLE, addVar.NAME or {TEXT_FIELD}"
        )
    if rule:
        faults.add(place, "bad_field", f'invalid field "{str(field)[:64]}": {rule}')
    return str(field)


def _check_value(
    operator: str, condition: dict[str, Any], place: Place, faults: InputFaults
) -> None:
    """Add the fault of a condition's value, if any."""
    value = condition.get("value")
    if operator in PRESENCE:
        rule = "" if value is None else f"{operator} takes no value"
    elif "value" not in condition:
        faults.add(place, "missing_param", f"{operator} needs a value")
        return
    elif operator in MEMBERSHIP:
        rule = _list_fault(operator, value)
    elif operator == "regex":
        rule = (
            pattern_fault(str(value)) if _is_text(value) else "regex takes an RE2 pattern as text"
        )
    elif operator in TEXTS:
        rule = "" if _is_text(value) else f"{operator} takes a text"
    elif operator in ORDER:
        is_ordered = _is_text(value) or is_number(value)
        rule = "" if is_ordered else f"{operator} takes a number or a text"
    else:
        rule = (
            "" if _is_scalar(value) else f"{operator} takes a text, a number, true, false or null"
        )
    if isinstance(value, str) and len(value) > MAX_VALUE:
        rule = f"a text has at most {MAX_VALUE} characters"
    if rule:
        faults.add(place, "bad_param", rule)


def _list_fault(operator: str, value: Any) -> str:
    if not isinstance(value, list) or not all(map(_is_scalar, value)):
        return f"{operator} takes a list of texts, numbers, true, false and null"
    return f"{operator} takes at most {MAX_VALUES} values" if len(value) > MAX_VALUES else ""


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, bool) or is_number(value) or _is_text(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and not text_fault(value)
