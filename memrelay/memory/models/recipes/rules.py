"""Rule engines: lists of rules that add recipes to an assembly, their check, and their inputs."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal

import orjson
import re2
from pydantic import WithJsonSchema

from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment
from memrelay.memory.engine.versions import State
from memrelay.memory.errors import Refused
from memrelay.memory.models.recipes import RULE_ENGINE_KIND
from memrelay.memory.models.recipes.definition.recipe import SCOPES, scope_fault
from memrelay.memory.models.recipes.execution.conditions import COMPARISONS, MISSING, is_number
from memrelay.memory.models.recipes.faults import FaultList, quoted, suggest
from memrelay.memory.models.recipes.keyed_kind import SCOPE, KeyedKind, view_edits
from memrelay.memory.models.recipes.recipes import active_briefs
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.data import text_fault
from memrelay.memory.records.paging import take_page, too_large
from memrelay.memory.records.view import Guid, Versions
from memrelay.memory.validation import Place

ADDITIONAL_NAME = re.compile(r"[a-z0-9_]{1,64}")
TEXT_FIELD = "input.text"
MAX_TEXT_CHARACTERS = 16_000
MAX_VARIABLES = 256
_OBJECT = {"type": "object", "additionalProperties": True}
_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
_NULL = {"type": "null"}
_BOOLEAN = {"type": "boolean"}
_RULES = {"type": "array", "items": {"type": "object"}}
# Types of input fields whose faults are collected by `read_inputs` or `check_engine`, so that all
# faults of a call come at once.
AnyObject = Annotated[Any, WithJsonSchema(_OBJECT)]
ObjectOrNull = Annotated[Any, WithJsonSchema({"anyOf": [_OBJECT, _NULL]})]
ObjectTextOrNull = Annotated[Any, WithJsonSchema({"anyOf": [_OBJECT, _TEXT, _NULL]})]
AnyText = Annotated[Any, WithJsonSchema(_TEXT)]
TextOrNull = Annotated[Any, WithJsonSchema({"anyOf": [_TEXT, _NULL]})]
TextList = Annotated[Any, WithJsonSchema(_TEXTS)]
TextListOrNull = Annotated[Any, WithJsonSchema({"anyOf": [_TEXTS, _NULL]})]


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of an evaluation or an assembly."""

    # {scope: {variable: value}}.
    scopes: dict[str, dict[str, Any]]
    additional: dict[str, Any]
    text: str

    def values(self) -> dict[str, Any]:
        """Return the values by the names that rules use. Null values are left out."""
        named = {
            f"scope.{scope}.{name}": value
            for scope, variables in self.scopes.items()
            for name, value in variables.items()
        }
        named |= {f"addVar.{name}": value for name, value in self.additional.items()}
        named |= {TEXT_FIELD: self.text or None}
        return {name: value for name, value in named.items() if value is not None}


def read_inputs(request: Any, faults: FaultList) -> Inputs:
    """Read the inputs of a request with `scope_variables`, `additional_variables` and `input`."""
    return Inputs(
        _read_scopes(request.scope_variables, faults),
        _read_additional(request.additional_variables, faults),
        _read_text(request.input, faults),
    )


def _read_scopes(submitted: Any, faults: FaultList) -> dict[str, dict[str, Any]]:
    field = "scope_variables"
    if submitted is None:
        faults.add((field,), "required", f"{field} is missing (it may be {{}})")
        return {}
    if not isinstance(submitted, dict):
        faults.add((field,), "bad_type", f"{field} must be an object of objects by scope")
        return {}
    for scope, variables in submitted.items():
        if rule := scope_fault(scope):
            faults.add((field, scope), "bad_enum", rule)
        elif not isinstance(variables, dict):
            faults.add((field, scope), "bad_type", f"scope {scope} must be an object")
        else:
            _check_variables(scope, variables, faults)
    return {scope: one for scope, one in submitted.items() if isinstance(one, dict)}


def _check_variables(scope: str, variables: dict[str, Any], faults: FaultList) -> None:
    for name, value in variables.items():
        path = ("scope_variables", scope, name)
        if rule := scope_fault(scope, name):
            faults.add(path, "bad_variable", rule)
        elif isinstance(value, dict | list):
            faults.add(path, "bad_type", f"{name} must be a text, a number, true or false")


def _read_additional(submitted: Any, faults: FaultList) -> dict[str, Any]:
    field = "additional_variables"
    if submitted is None:
        return {}
    if not isinstance(submitted, dict):
        faults.add((field,), "bad_type", f"{field} must be an object of values by name")
        return {}
    if len(submitted) > MAX_VARIABLES:
        faults.add((field,), "out_of_range", f"{field} has more than {MAX_VARIABLES} names")
    for name in submitted:
        if not ADDITIONAL_NAME.fullmatch(name):
            rule = f'"{name[:64]}" is no name of a variable: use a to z, 0 to 9 and _'
            faults.add((field, name), "bad_variable", rule)
    return submitted


def _read_text(submitted: Any, faults: FaultList) -> str:
    if submitted is None:
        return ""
    if isinstance(submitted, str):
        return faults.take_text(submitted, ("input",), MAX_TEXT_CHARACTERS)
    if not isinstance(submitted, dict):
        faults.add(("input",), "bad_type", 'input must be a text or {"text": "..."}')
        return ""
    text = faults.take_object(submitted, ("input",), ("text",)).get("text")
    return "" if text is None else faults.take_text(text, ("input", "text"), MAX_TEXT_CHARACTERS)


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
RuleList = Annotated[Any, WithJsonSchema(_RULES)]
Enabled = Annotated[Any, WithJsonSchema(_BOOLEAN)]
EnabledOrNull = Annotated[Any, WithJsonSchema({"anyOf": [_BOOLEAN, _NULL]})]
RuleListOrNull = Annotated[Any, WithJsonSchema({"anyOf": [_RULES, _NULL]})]
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
    id: str
    name: str
    description: str
    enabled: bool
    rules: tuple[Rule, ...]

    def as_json(self) -> str:
        """Return the engine as canonical JSON."""
        return orjson.dumps(asdict(self), option=orjson.OPT_SORT_KEYS).decode()


def load_engine(content: str) -> Engine:
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


MAX_ENGINES = 100


@dataclass(frozen=True, slots=True)
class EngineView:
    """A rule engine."""

    id: str
    """The id."""
    name: str
    """The name."""
    description: str
    """The purpose of the engine."""
    enabled: bool
    """Whether an assembly evaluates it without naming it."""
    rules: tuple[Rule, ...]
    """The rules."""
    version: str
    """Changes with every edit; an edit can require it."""
    created_at: Moment
    updated_at: Moment


def view_engine(state: State) -> EngineView:
    engine = load_engine(state.content)
    return EngineView(
        engine.id,
        engine.name,
        engine.description,
        engine.enabled,
        engine.rules,
        **view_edits(state),
    )


ENGINES = KeyedKind(RULE_ENGINE_KIND, "rule engine", "rules", view_engine)


@dataclass(frozen=True, slots=True)
class CreateRules:
    """A rule engine to create."""

    name: AnyText
    """A name for people, at most 256 characters."""
    id: TextOrNull = None
    """The id: 1 to 64 letters, digits, `.`, `_` and `-`. A new id is generated by default."""
    description: AnyText = ""
    """The purpose of the engine, at most 2,000 characters."""
    enabled: Enabled = True
    """Whether assemblies evaluate it without naming it."""
    rules: RuleList = ()
    """Up to 100 rules: `{id?, name?, priority?, when: [{field, operator, value}],
    then: {add_memories: [id]}}`."""


@operation("rules.create", access="write", mutates=True, store="recipes")
def create_rules(tx: Transaction, new: CreateRules, context: Context) -> EngineView:
    """Create a rule engine. Its rules add recipes to the contexts that are assembled.

    Raises InvalidInput: with every fault of the engine.
    Raises NameTaken: when an engine has the id.
    Raises Refused: when there are 100 engines.
    """
    guid = context.new_guid()
    engine = check_engine({name: getattr(new, name) for name in ENGINE_KEYS}, guid)
    if ENGINES.table(tx).count(SCOPE) >= MAX_ENGINES:
        raise Refused(f"there are {MAX_ENGINES} rule engines, the maximum; delete one first")
    return ENGINES.add(tx, engine.id, engine.as_json(), context, guid)


@dataclass(frozen=True, slots=True)
class GetRules:
    """The rule engine to read."""

    id: Guid
    """The id of the engine."""


ENGINES.declare_get(GetRules, "Return a rule engine.")


@dataclass(frozen=True, slots=True)
class ListRules:
    """Lists all rule engines."""


@dataclass(frozen=True, slots=True)
class Engines:
    """Rule engines in the order of their ids."""

    items: tuple[EngineView, ...]


@operation("rules.list", access="read", mutates=False, store="recipes")
def list_rules(tx: Transaction, query: ListRules, context: Context) -> Engines:
    """List all rule engines, disabled ones included, in the order of their ids.

    Raises ResultTooLarge: when they do not fit into an answer.
    """
    views = map(view_engine, list_engines(tx))
    items, more = take_page(views, MAX_ENGINES, context.result_bytes)
    if more:
        raise too_large(context.result_bytes)
    return Engines(tuple(items))


def list_engines(tx: Transaction) -> Iterator[State]:
    """Yield all stored engines in the order of their ids."""
    return (stored.state for stored in ENGINES.table(tx).page(SCOPE, "", MAX_ENGINES))


@dataclass(frozen=True, slots=True)
class UpdateRules:
    """The changes of a rule engine. Fields that are omitted or null keep their values."""

    id: Guid
    """The id of the engine."""
    name: TextOrNull = None
    """The new name."""
    description: TextOrNull = None
    """The new description."""
    enabled: EnabledOrNull = None
    """Whether assemblies evaluate it without naming it."""
    rules: RuleListOrNull = None
    """The new rules; they replace all present rules."""
    if_version: Versions = ()
    """Change only if the engine has one of these versions."""


@operation("rules.update", access="write", mutates=True, store="recipes")
def update_rules(tx: Transaction, change: UpdateRules, context: Context) -> EngineView:
    """Change the given fields of a rule engine.

    Raises InvalidInput: with every fault of the changes.
    Raises RecordNotFound: when the engine does not exist.
    Raises VersionConflict: when the engine has another version.
    """
    stored = ENGINES.find_version(tx, change.id, change.if_version)
    changes = {name: getattr(change, name) for name in ENGINE_KEYS}
    changes = {name: value for name, value in changes.items() if value is not None}
    engine = check_engine(asdict(load_engine(stored.content)) | changes, change.id)
    return ENGINES.replace(tx, stored, engine.as_json())


@dataclass(frozen=True, slots=True)
class DeleteRules:
    """The rule engine to delete."""

    id: Guid
    """The id of the engine."""
    if_version: Versions = ()
    """Delete only if the engine has one of these versions."""


ENGINES.declare_delete(DeleteRules, "Delete a rule engine.")


@dataclass(frozen=True, slots=True)
class EvaluateRules:
    """The inputs of rules."""

    scope_variables: AnyObject
    """Variables by scope: `{"task": {"task_id": "T1"}}`."""
    additional_variables: ObjectOrNull = None
    """Further variables by name; rules read them as `addVar.NAME`."""
    input: ObjectTextOrNull = None
    """The question, a text or `{"text": "..."}`."""
    rule_engine_ids: TextListOrNull = None
    """The engines to evaluate, even disabled ones. By default all enabled engines."""


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
class EngineResult:
    """The result of one engine."""

    engine_id: str
    """The engine."""
    engine_name: str
    """The name of the engine."""
    matched_rules: tuple[MatchedRule, ...]
    """The rules whose conditions hold, the highest priority first."""


@dataclass(frozen=True, slots=True)
class RulesEvaluated:
    """The recipes that rules add."""

    matched_memories: tuple[str, ...]
    """The ids of the recipes, each once, those of the highest priority first."""
    engine_results: tuple[EngineResult, ...]
    """The results by engine."""
    variables_used: tuple[str, ...]
    """The fields of conditions that have a value."""


@operation("rules.evaluate", access="search", mutates=False, store="recipes")
def evaluate(tx: Transaction, query: EvaluateRules, context: Context) -> RulesEvaluated:
    """Return which recipes the rules add for some inputs. It runs no recipe.

    Raises InvalidInput: with every fault of the inputs.
    """
    faults = FaultList()
    inputs = read_inputs(query, faults)
    engines = choose_engines(tx, query.rule_engine_ids, faults)
    faults.raise_any("the input")
    evaluation = evaluate_rules(engines, inputs.values())
    added = dict.fromkeys(ident for rule in evaluation.matched for ident in rule.add_memories)
    results = list[EngineResult]()
    for engine in engines:
        rules = tuple(rule for rule in evaluation.matched if rule.engine_id == engine.id)
        results.append(EngineResult(engine.id, engine.name, rules))
    return RulesEvaluated(tuple(added), tuple(results), evaluation.used)


@dataclass(frozen=True, slots=True)
class ListVariables:
    """Lists all fields."""


@dataclass(frozen=True, slots=True)
class RuleVariable:
    """A field that a condition can read."""

    name: str
    """The name of the field."""
    source: Literal["scope", "input", "recipe", "rule"]
    """Its source: a scope, the input, an active recipe, or another rule."""


@dataclass(frozen=True, slots=True)
class RuleVariables:
    """The fields of conditions."""

    items: tuple[RuleVariable, ...]


@operation("rules.variables", access="read", mutates=False, store="recipes")
def list_variables(tx: Transaction, query: ListVariables, context: Context) -> RuleVariables:
    """List the fields that conditions can read: of scopes, the input, recipes and other rules."""
    sources: dict[str, Literal["scope", "input", "recipe", "rule"]] = {
        f"scope.{scope}.{name}": "scope" for scope, names in SCOPES.items() for name in names
    }
    sources[TEXT_FIELD] = "input"
    for brief in active_briefs(tx):
        for name in brief.variables:
            sources.setdefault(f"addVar.{name}", "recipe")
    for state in list_engines(tx):
        for rule in load_engine(state.content).rules:
            for one in rule.when:
                sources.setdefault(one.field, "rule")
    return RuleVariables(tuple(RuleVariable(name, source) for name, source in sources.items()))


def choose_engines(tx: Transaction, named: Any, faults: FaultList) -> list[Engine]:
    """Return the named engines in their order, even disabled ones, or else all enabled engines."""
    if named is None:
        engines = [load_engine(state.content) for state in list_engines(tx)]
        return [engine for engine in engines if engine.enabled]
    chosen = dict[str, Engine]()
    for at, ident in enumerate(faults.take_list(named, ("rule_engine_ids",), MAX_ENGINES)):
        name = faults.take_text(ident, ("rule_engine_ids", at), 64, needed=True)
        stored = ENGINES.table(tx).find(SCOPE, name) if name else None
        if stored is not None:
            chosen[name] = load_engine(stored.state.content)
        elif name:
            rule = f'no rule engine has the id "{name[:64]}"; rules.list lists them'
            faults.add(("rule_engine_ids", at), "unknown_engine", rule)
    return list(chosen.values())


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
                added = rule.then.add_memories
                matched.append(MatchedRule(engine.id, rule.id, rule.name, rule.priority, added))
    matched.sort(key=lambda one: -one.priority)
    return Evaluation(tuple(matched), tuple(used))


def _holds(condition: RuleCondition, values: Mapping[str, Any]) -> bool:
    value = values.get(condition.field, MISSING)
    match condition.operator:
        case "exists":
            return value is not MISSING
        case "not_exists":
            return value is MISSING
        case "not_in":
            return not COMPARISONS["in"](value, condition.value)
        case "regex":
            return isinstance(value, str) and matches(condition.value, value)
    return COMPARISONS[condition.operator](value, condition.value)
