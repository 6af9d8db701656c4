"""The definitions of rule engines, and their check."""

import re
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Annotated, Any

import orjson
import re2
from pydantic import WithJsonSchema

from memrelay.memory.models.recipes.assembly.inputs import ADDITIONAL_NAME, TEXT_FIELD
from memrelay.memory.models.recipes.definition.scopes import scope_fault
from memrelay.memory.models.recipes.execution.values import is_number
from memrelay.memory.models.recipes.faults import FaultList, quoted, suggest
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
MAX_VALUES = 256
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
MAX_PATTERN_CHARACTERS = 1000
# Size of the compiled program. In the worst case each step costs 1 ns per byte of text.
MAX_PATTERN_STEPS = 1000
MAX_COMPILED_BYTES = 1 << 20
MAX_RULES, MAX_CONDITIONS, MAX_MEMORIES = 100, 20, 50
MAX_NAME, MAX_DESCRIPTION, MAX_VALUE = 256, 2000, 2000


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
    fields = orjson.loads(content)
    return Engine(**fields | {"rules": tuple(map(_load_rule, fields["rules"]))})


def _load_rule(fields: dict[str, Any]) -> Rule:
    when = tuple(RuleCondition(**one) for one in fields["when"])
    then = RuleAction(tuple(fields["then"]["add_memories"]))
    return Rule(**fields | {"when": when, "then": then})


def check_engine(fields: dict[str, Any], new_id: str) -> Engine:
    """Return the engine of a definition. `new_id` is its id if the definition has none.

    Raises InvalidInput: with every fault.
    """
    faults = FaultList()
    engine = Engine(
        new_id if fields["id"] is None else _check_id(fields["id"], ("id",), faults),
        faults.take_text(fields["name"], ("name",), MAX_NAME, needed=True),
        faults.take_text(fields["description"], ("description",), MAX_DESCRIPTION),
        faults.take_boolean(fields["enabled"], ("enabled",)),
        _check_rules(fields["rules"], faults),
    )
    if not faults.found and len(engine.as_json().encode()) > MAX_BYTES:
        faults.add((), "too_large", f"the rule engine has more than {MAX_BYTES} bytes as JSON")
    faults.raise_any("the rule engine")
    return engine


def _check_rules(submitted: Any, faults: FaultList) -> tuple[Rule, ...]:
    definitions = faults.take_list(submitted, ("rules",), MAX_RULES)
    ids = (definition.get("id") for definition in definitions if isinstance(definition, dict))
    taken = {str(id_) for id_ in ids if _is_text(id_)}
    rules, seen = list[Rule](), set[str]()
    for at, one in enumerate(definitions):
        rule = _check_rule(one, ("rules", at), _free_id(taken, at), faults)
        if rule.id and rule.id in seen:
            path = ("rules", at, "id")
            faults.add(path, "duplicate_id", f'two rules have the id "{rule.id[:64]}"')
        seen.add(rule.id)
        taken.add(rule.id)
        rules.append(rule)
    return tuple(rules)


def _check_rule(submitted: Any, path: Place, new_id: str, faults: FaultList) -> Rule:
    rule = faults.take_object(submitted, path, RULE_KEYS)
    if not isinstance(submitted, dict):
        return Rule("", "", 0, (), RuleAction(()))
    ident, priority = rule.get("id"), rule.get("priority", 0)
    listed = faults.take_list(rule.get("when", []), (*path, "when"), MAX_CONDITIONS)
    return Rule(
        new_id if ident is None else _check_id(ident, (*path, "id"), faults),
        faults.take_text(rule.get("name", ""), (*path, "name"), MAX_NAME),
        faults.take_integer(priority, (*path, "priority"), -MAX_PRIORITY, MAX_PRIORITY),
        tuple(_check_condition(one, (*path, "when", at), faults) for at, one in enumerate(listed)),
        RuleAction(_check_action(rule, path, faults)),
    )


def _check_condition(submitted: Any, path: Place, faults: FaultList) -> RuleCondition:
    condition = faults.take_object(submitted, path, ("field", "operator", "value"))
    if not isinstance(submitted, dict):
        return RuleCondition("", "", None)
    operator = condition.get("operator")
    if operator is None:
        faults.add((*path, "operator"), "required", "operator is missing")
    elif operator not in OPERATORS:
        faults.add(
            (*path, "operator"),
            "bad_enum",
            f"unknown operator {quoted(operator)}{suggest(operator, OPERATORS)}",
        )
    else:
        _check_value(operator, condition, (*path, "value"), faults)
    return RuleCondition(
        _check_field(condition.get("field"), (*path, "field"), faults),
        str(operator),
        condition.get("value"),
    )


def _check_value(operator: str, condition: dict[str, Any], path: Place, faults: FaultList) -> None:
    """Add the fault of a condition's value, if any."""
    value = condition.get("value")
    if operator in PRESENCE:
        rule = "" if value is None else f"{operator} takes no value"
    elif "value" not in condition:
        faults.add(path, "missing_param", f"{operator} needs a value")
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
        faults.add(path, "bad_param", rule)


def _list_fault(operator: str, value: Any) -> str:
    if not isinstance(value, list) or not all(map(_is_scalar, value)):
        return f"{operator} takes a list of texts, numbers, true, false and null"
    return f"{operator} takes at most {MAX_VALUES} values" if len(value) > MAX_VALUES else ""


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, bool) or is_number(value) or _is_text(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and not text_fault(value)


def _check_field(field: Any, path: Place, faults: FaultList) -> str:
    """Return the field of a condition."""
    if field is None:
        faults.add(path, "required", "field is missing")
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
        faults.add(path, "bad_field", f'invalid field "{str(field)[:64]}": {rule}')
    return str(field)


def _check_action(rule: dict[str, Any], path: Place, faults: FaultList) -> tuple[str, ...]:
    """Return the recipes that a rule adds. A valid id need not exist yet."""
    path = (*path, "then")
    if "then" not in rule:
        faults.add(path, "required", "then is missing; it is {add_memories: [id]}")
        return ()
    action = faults.take_object(rule["then"], path, ("add_memories",))
    path = (*path, "add_memories")
    added = action.get("add_memories", [])
    if added == [] and isinstance(rule["then"], dict):
        faults.add(path, "required", "add_memories needs at least one id of a recipe")
    listed = faults.take_list(added, path, MAX_MEMORIES)
    return tuple(_check_id(one, (*path, at), faults) for at, one in enumerate(listed))


def _check_id(id_: Any, path: Place, faults: FaultList) -> str:
    if not isinstance(id_, str):
        faults.add(path, "bad_type", f"{path[-1]} must be a text")
        return ""
    if not ID.fullmatch(id_):
        faults.add(path, "bad_id", f'"{id_[:64]}" is no id: an id has {ID_RULE}')
    return id_


def _free_id(taken: set[str], at: int) -> str:
    number = at + 1
    while f"rule-{number}" in taken:
        number += 1
    return f"rule-{number}"


def pattern_fault(source: str) -> str:
    """Return why a pattern is invalid and at which position, "" if it is valid."""
    if len(source) > MAX_PATTERN_CHARACTERS:
        return f"a pattern has at most {MAX_PATTERN_CHARACTERS} characters"
    problem = _find_problem(source)
    if problem:
        return (
            f"RE2 refuses the pattern at position {_find_position(source, problem)}: {problem}; "
            "look-around and back-references are not available"
        )
    if (steps := _compile_pattern(source).programsize) > MAX_PATTERN_STEPS:
        return f"the pattern compiles to {steps} steps, at most {MAX_PATTERN_STEPS}; repeat less"
    return ""


def _find_position(source: str, problem: str) -> int:
    """Return where the problem is, from 1. RE2 quotes the faulty part, or the whole pattern."""
    kind, _, part = problem.partition(": ")
    if part and part != source and (at := source.find(part)) >= 0:
        return at + 1
    if kind.startswith("missing"):
        return len(source) + 1
    lengths = range(1, len(source) + 1)
    return next((n for n in lengths if _find_problem(source[:n]).startswith(kind)), len(source))


def _find_problem(source: str) -> str:
    try:
        _compile_pattern(source)
    except re2.error as error:
        message = error.args[0]
        return message.decode(errors="replace") if isinstance(message, bytes) else str(message)
    return ""


def matches(source: str, text: str) -> bool:
    """Return whether a valid pattern matches anywhere in the text."""
    return _compile_pattern(source).search(text.encode()) is not None


@lru_cache(maxsize=256)
def _compile_pattern(source: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MAX_COMPILED_BYTES
    return re2.compile(source.encode(), options)
