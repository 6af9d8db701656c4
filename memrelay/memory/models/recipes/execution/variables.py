"""The values of names in a run: the intent, declared variables, scope variables and results."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from memrelay.memory.models.recipes.definition.recipe import Recipe
from memrelay.memory.models.recipes.definition.scopes import (
    SCOPE_OF,
    SCOPES,
    belongs_to_scope,
    scope_fault,
)
from memrelay.memory.models.recipes.execution.conditions import get_in_result
from memrelay.memory.models.recipes.execution.values import MISSING, get_path
from memrelay.memory.models.recipes.faults import FaultList, did_you_mean
from memrelay.memory.validation import Place

Intent = Mapping[str, Any]
# The parts of an intent, and the type that each of them must have.
PARTS: Mapping[str, tuple[type, str]] = {
    "query": (str, "a text"),
    "keywords": (list, "a list of texts"),
    "action": (str, "a text"),
    "context": (dict, "an object"),
}


@dataclass(frozen=True, slots=True)
class RunInput:
    """The input of a run."""

    # A text is the query. None is an empty intent.
    intent: str | Intent | None = None
    # Values of declared variables, by name.
    variables: Mapping[str, Any] = field(default_factory=dict)
    # Values by scope, then by name: {"task": {"task_id": "T1"}}.
    scope_variables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # Sets the scope variable `thread_id`.
    thread_id: str | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """The checked input of a run."""

    intent: dict[str, Any]
    # Declared variables and those of the recipe's scopes that have a value.
    values: dict[str, Any]
    # (code, message) of each warning.
    warnings: list[tuple[str, str]]


def prepare_input(recipe: Recipe, run_input: RunInput, uid: str) -> Prepared:
    """Check the input of a run. Raises InvalidInput with all errors."""
    faults, warnings = FaultList(), list[tuple[str, str]]()
    intent = _read_intent(run_input.intent, faults, warnings)
    values = _read_scopes(recipe, run_input, uid, warnings)
    values |= _read_declared(recipe, run_input.variables, faults, warnings)
    faults.raise_joined()
    return Prepared(intent, values, warnings)


def _read_intent(
    submitted: str | Intent | None, faults: FaultList, warnings: list[tuple[str, str]]
) -> dict[str, Any]:
    if submitted is None or isinstance(submitted, str):
        return {"query": submitted} if submitted else {}
    intent = {name: value for name, value in submitted.items() if value is not None}
    for name, value in intent.items():
        if name not in PARTS:
            warnings.append(("unknown_intent", f'the intent has no part "{name}"; it is ignored'))
            continue
        type_, rule = PARTS[name]
        is_valid = isinstance(value, type_)
        if name == "keywords" and is_valid:
            is_valid = all(isinstance(one, str) for one in value)
        if not is_valid:
            faults.add(("intent", name), "bad_type", f"intent.{name} must be {rule}")
    return intent


def _read_scopes(
    recipe: Recipe, run_input: RunInput, uid: str, warnings: list[tuple[str, str]]
) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for scope, variables in run_input.scope_variables.items():
        known = SCOPES.get(scope, ()) if scope in recipe.inputs_scope else ()
        for name, value in variables.items():
            if name in known and value is not None:
                values[name] = value
            elif name not in known:
                unread = f'the recipe does not read the scope "{scope}", so "{name}" is ignored'
                warnings.append(("unknown_variable", scope_fault(scope, name) or unread))
    if run_input.thread_id and "thread" in recipe.inputs_scope:
        values["thread_id"] = run_input.thread_id
    if uid and "project" in recipe.inputs_scope:
        values["project_id"] = uid
    return values


def _read_declared(
    recipe: Recipe,
    submitted: Mapping[str, Any],
    faults: FaultList,
    warnings: list[tuple[str, str]],
) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for variable in recipe.variables:
        value = submitted.get(variable.name)
        value = variable.default if value is None else value
        if value is not None:
            values[variable.name] = value
        elif variable.required:
            message = f'the variable "{variable.name}" is required'
            faults.add(("variables", variable.name), "required", message)
    declared = {variable.name for variable in recipe.variables}
    for name in submitted:
        if name in declared:
            continue
        rule = f'"{name}" is not declared and is ignored{did_you_mean(name, declared)}'
        rule = belongs_to_scope(name) if name in SCOPE_OF else rule
        warnings.append(("unknown_variable", rule))
    return values


class Names:
    """Looks up the names in templates, and remembers which of them had a value."""

    def __init__(self, prepared: Prepared, results: Mapping[str, Any]) -> None:
        self._intent, self._values, self._results = prepared.intent, prepared.values, results
        self.query: str = prepared.intent.get("query", "")
        # Names with and without a value, as keys in the order of their first use.
        self.used: dict[str, None] = {}
        self.missing: dict[str, None] = {}

    def resolve(self, name: str) -> Any:
        """Return the value of a name, MISSING if it has none."""
        value = self.query if name == "query" else self.find_early(name)
        if value is MISSING:
            alias, *path = name.split(".")
            value = get_in_result(self._results.get(alias, MISSING), path)
        (self.missing if value is MISSING else self.used)[name] = None
        return value

    def find_early(self, name: str) -> Any:
        """Return the value that a name has before the run, MISSING if it has none."""
        root, *path = name.split(".")
        if root in ("keywords", "action", "context"):
            return get_path(self._intent.get(root, MISSING), path)
        return get_path(self._values.get(root, MISSING), path)

    def locate(self, name: str) -> Place:
        """Return the path of a name in the input of the run."""
        root, *path = name.split(".")
        if root in ("keywords", "action", "context"):
            return ("intent", root, *path)
        if root in SCOPE_OF:
            return ("scope_variables", SCOPE_OF[root], root)
        return ("variables", root)
