"""Run a recipe step by step, within bounds of time, items and bytes.

Parameters of steps may have `${name}`: a part of the intent, a declared or scope variable, or a
result. Its value replaces it before the step runs.
"""

import re
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import orjson
from pydantic import ValidationError

from memrelay.memory.engine.store import Transaction
from memrelay.memory.errors import Refused, SearchTooLong
from memrelay.memory.models.recipes.definition.recipe import (
    SCOPE_OF,
    SCOPES,
    CompiledStep,
    Recipe,
    belongs_to_scope,
    scope_fault,
)
from memrelay.memory.models.recipes.execution.conditions import (
    MISSING,
    count_items,
    get_in_result,
    get_path,
)
from memrelay.memory.models.recipes.execution.items import MAX_ITEMS, flatten, format_items
from memrelay.memory.models.recipes.faults import MAX_FAULTS, MOST_HINTS, FaultList, did_you_mean
from memrelay.memory.models.recipes.step import Result, StepCall, StepFailed
from memrelay.memory.operations import Context
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
            if len(warnings) < MAX_FAULTS:
                rule = f'the intent has no part "{name}"; it is ignored'
                warnings.append(("unknown_intent", rule))
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
            elif name not in known and len(warnings) < MAX_FAULTS:
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
        if len(warnings) >= MAX_FAULTS:
            break
        if name in declared:
            continue
        hint = did_you_mean(name, declared) if len(warnings) < MOST_HINTS else ""
        rule = f'"{name}" is not declared and is ignored{hint}'
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


# `$${` stands for `${`. A name has no braces.
TOKEN = re.compile(r"\$\$\{|\$\{([^{}]*)\}")
# Parameters in which nothing is replaced.
LITERAL_PARAMS = frozenset(
    ("type", "step", "alias", "source", "sources", "condition", "handler", "onError")
)
# Returns the value of a name, MISSING if it has none.
Resolve = Callable[[str], Any]
# Steps of these categories return no items if a parameter lacks its variable.
READING = ("retrieval", "expansion")
# The most bytes that all results of a run have, and the values in the parameters of one step.
MAX_BYTES = 8 << 20


def has_templates(value: Any) -> bool:
    """Return whether substitution may change the value."""
    if isinstance(value, str):
        return TOKEN.search(value) is not None
    if isinstance(value, dict):
        return any(map(has_templates, value.values()))
    return isinstance(value, list) and any(map(has_templates, value))


def find_templates(value: Any) -> tuple[str, ...]:
    """Return the names in all texts of a JSON value, in their order, each once."""
    return tuple(dict.fromkeys(_names_in(value)))


def _names_in(value: Any) -> list[str]:
    if isinstance(value, str):
        return [match[1].strip() for match in TOKEN.finditer(value) if match[1] is not None]
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list):
        return []
    return [name for element in value for name in _names_in(element)]


def substitute(value: Any, resolve: Resolve) -> Any:
    """Return the value with all names replaced. A name without value becomes "".

    A text that is one token keeps the type of the name's value. Results are not replaced again.
    """
    if isinstance(value, str):
        return _substitute_text(value, resolve) if "${" in value else value
    if isinstance(value, dict):
        return {key: substitute(one, resolve) for key, one in value.items()}
    if isinstance(value, list):
        return [substitute(one, resolve) for one in value]
    return value


def _substitute_text(text: str, resolve: Resolve) -> Any:
    match = TOKEN.fullmatch(text)
    if match is not None and match[1] is not None:
        value = resolve(match[1].strip())
        return "" if value is MISSING else value
    return TOKEN.sub(lambda found: _replacement(found[1], resolve), text)


def _replacement(name: str | None, resolve: Resolve) -> str:
    if name is None:
        return "${"
    value = resolve(name.strip())
    return "" if value is MISSING else as_text(value)


def as_text(value: Any) -> str:
    """Return a value as part of a text: lists are joined by `, `, other values are JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return ", ".join(map(as_text, value))
    return orjson.dumps(value).decode()


class BoundExceeded(Exception):
    """The run exceeds a bound; `onError` has no effect."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Unresolved(Exception):
    """A parameter of a reading step has no value, so that the step returns no items."""


def fill_params(step: CompiledStep, resolve: Resolve) -> Any:
    """Return the parameters of a step with templates.

    An optional parameter that becomes "" is left out. Raises Unresolved, StepFailed for an invalid
    value, and BoundExceeded.
    """
    filled, resolve = {}, _bounded(resolve)
    for name, value in step.raw.items():
        if name in LITERAL_PARAMS or not has_templates(value):
            filled[name] = value
            continue
        lacking: list[str] = []
        new = substitute(value, _noting(resolve, lacking))
        if step.type.category in READING and (lacking or new == ""):
            reason = f'"{lacking[0]}" has no value' if lacking else "it is empty"
            raise Unresolved(f"no items, because {name} needs a variable: {reason}")
        if new != "":
            filled[name] = new
    try:
        return step.type.adapter.validate_json(orjson.dumps(filled), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        name = ".".join(map(str, first["loc"]))
        rule = first["msg"].removeprefix("Value error, ")
        raise StepFailed("bad_param", f"{name}: {rule}" if name else rule) from error


def _bounded(resolve: Resolve) -> Resolve:
    """Return the function, which raises BoundExceeded when its values have become too large."""
    left = MAX_BYTES

    def count(name: str) -> Any:
        nonlocal left
        value = resolve(name)
        if value is not MISSING:
            left -= len(value) if isinstance(value, str) else len(orjson.dumps(value))
        if left < 0:
            raise BoundExceeded("too_large", f"the parameters exceed {MAX_BYTES} bytes")
        return value

    return count


def _noting(resolve: Resolve, lacking: list[str]) -> Resolve:
    def noted(name: str) -> Any:
        value = resolve(name)
        if value is MISSING:
            lacking.append(name)
        return value

    return noted


def check_early(steps: Sequence[CompiledStep], names: Names) -> None:
    """Check the parameters whose values are known before the run.

    Raises InvalidInput with all invalid ones.
    """
    faults = FaultList()
    for step in _with_templates(steps):
        raw = [one for name, one in step.raw.items() if name not in LITERAL_PARAMS]
        values = {name: names.find_early(name) for name in find_templates(raw)}
        values = {name: value for name, value in values.items() if value != ""}
        if not values or MISSING in values.values():
            continue
        try:
            fill_params(step, partial(_get_or_empty, values))
        except (StepFailed, BoundExceeded) as error:
            path = names.locate(next(iter(values)))
            faults.add(path, error.code, f"{step.alias}: {error}")
        except Unresolved:
            continue
    faults.raise_joined()


def _with_templates(steps: Sequence[CompiledStep]) -> Iterator[CompiledStep]:
    for step in steps:
        if step.params is None:
            yield step
        yield from _with_templates(step.then_steps)
        yield from _with_templates(step.else_steps)


def _get_or_empty(values: Mapping[str, Any], name: str) -> Any:
    return values.get(name, "")


# Bounds of a run. Its time is the processor time of its steps, seconds, so that a busy machine
# does not end a run.
MAX_S = 1.0
# Processor time of the reads of one step, seconds. A search has its own limit.
READ_S = 0.1
SEARCH_STEP = "vector_search"
# Steps whose parameters name their input.
OWN_SOURCE = ("derive_query", "rewrite_query", "merge")
Run = Generator[None, Transaction, dict[str, Any]]
Clock = Callable[[], float]


def run_recipe(
    tx: Transaction,
    recipe: Recipe,
    run_input: RunInput,
    context: Context,
    clock: Clock = time.thread_time,
) -> Run:
    """Run a recipe and return its result, the object that docs/recipes.md describes.

    The generator yields after each step, and receives the transaction for the next one. `clock`
    returns seconds. Raises InvalidInput before the first step, and VectorPending.
    """
    prepared = prepare_input(recipe, run_input, parse_uid(tx.memory_id))
    run = _RecipeRun(recipe, prepared, run_input.thread_id or "", context, clock)
    check_early(recipe.steps, run.names)
    for step in run.steps():
        run.perform(tx, step)
        tx = yield
    return run.result()


def parse_uid(memory_id: str) -> str:
    """Return the pipeline of a built-in store, "" for a store outside of `instances`."""
    parts = memory_id.split("/")
    return parts[1] if len(parts) == 3 and parts[0] == "instances" else ""


class _RecipeRun:
    def __init__(
        self, recipe: Recipe, prepared: Prepared, thread_id: str, context: Context, clock: Clock
    ) -> None:
        self._recipe, self._context, self._clock = recipe, context, clock
        self._results: dict[str, Result] = {}
        self._types: dict[str, str] = {}
        self.names = Names(prepared, self._results)
        # Alias of the latest list or groups.
        self._latest = ""
        self._bytes, self._seconds = 0, 0.0
        self._timing: dict[str, float] = {}
        self._error: dict[str, str] | None = None
        self._has_exited = False
        self._warnings: list[dict[str, str]] = []
        self._warn("", prepared.warnings)
        if recipe.status == "deprecated":
            self._warn("", [("deprecated", f'the recipe "{recipe.id}" is deprecated')])
        if not recipe.steps:
            self._warn("", [("empty_pipeline", "the recipe has no steps")])
        self._shared = {
            "memoryId": recipe.id,
            "memory": recipe.definition,
            "intent": prepared.intent,
            "query": self.names.query,
            "projectPath": prepared.values.get("project_path", ""),
            "threadId": thread_id,
            "variables": prepared.values,
        }

    def steps(self) -> Iterator[CompiledStep]:
        """Yield the steps to perform, those of a branch after its condition."""
        waiting = [iter(self._recipe.steps)]
        while waiting and not (self._error or self._has_exited):
            step = next(waiting[-1], None)
            if step is None:
                waiting.pop()
                continue
            yield step
            if step.type.name == "conditional" and step.alias in self._results:
                is_true = self._results[step.alias] is True
                waiting.append(iter(step.then_steps if is_true else step.else_steps))

    def perform(self, tx: Transaction, step: CompiledStep) -> None:
        """Run one step and keep its result or its error."""
        began = self._clock()
        try:
            result = self._run_step(tx, step)
            seconds = self._clock() - began
            self._check_bounds(result, seconds)
        except (StepFailed, BoundExceeded) as error:
            self._error = {"alias": step.alias, "code": error.code, "message": str(error)}
            seconds = self._clock() - began
        else:
            self._results[step.alias] = result
            self._types[step.alias] = step.type.name
            if isinstance(result, list | dict):
                self._latest = step.alias
            self._has_exited = step.type.name == "early_exit" and result is True
        self._seconds += seconds
        self._timing[step.alias] = round(seconds * 1000, 3)

    def _run_step(self, tx: Transaction, step: CompiledStep) -> Result:
        """Return the result of a step. Raises StepFailed unless the step skips errors."""
        try:
            return self._call(tx, step)
        except Unresolved as error:
            self._warn(step.alias, [("unresolved", str(error))])
        except SearchTooLong as error:
            raise BoundExceeded("timeout", f"{step.type.name}: {error}") from error
        except (StepFailed, Refused) as error:
            code = error.code if isinstance(error, StepFailed) else "bad_param"
            if step.on_error != "skip":
                raise StepFailed(code, str(error)) from error
            self._warn(step.alias, [(code, str(error))])
        return []

    def _call(self, tx: Transaction, step: CompiledStep) -> Result:
        params = step.params
        if params is None:
            params = fill_params(step, self.names.resolve)
        call = StepCall(
            tx, self._context, step.alias, [], self.names.query, self._results, self._shared
        )
        call.condition = step.condition
        if step.type.reads and step.type.name not in OWN_SOURCE:
            self._read_input(step, call)
        if step.type.category in READING and step.type.name != SEARCH_STEP:
            with tx.time_limit.bounded(READ_S):
                result = step.type.run(params, call)
        else:
            result = step.type.run(params, call)
        if call.new_query is not None:
            self.names.query = call.new_query
        if call.warnings:
            self._warn(step.alias, call.warnings)
        return result  # type: ignore[no-any-return]

    def _read_input(self, step: CompiledStep, call: StepCall) -> None:
        source = step.source or self._latest
        result = self._results.get(source)
        if result is None:
            named = f'there is no result "{source}"' if source else "no step returned items before"
            call.warn("no_input", f"{named}; the input is empty")
            return
        call.items = flatten(result)
        call.source, call.source_type = source, self._types[source]

    def _check_bounds(self, result: Result, seconds: float) -> None:
        if (count := count_items(result)) > MAX_ITEMS:
            raise BoundExceeded("too_many_items", f"{count} items; a step may have {MAX_ITEMS}")
        self._bytes += len(orjson.dumps(result))
        if self._bytes > MAX_BYTES:
            raise BoundExceeded("too_large", f"the results exceed {MAX_BYTES} bytes")
        if self._seconds + seconds > MAX_S:
            raise BoundExceeded("timeout", f"the run takes longer than {MAX_S:g} s")

    def _warn(self, alias: str, warnings: list[tuple[str, str]]) -> None:
        self._warnings += [
            {"alias": alias, "code": code, "message": message} for code, message in warnings
        ]

    def result(self) -> dict[str, Any]:
        contribution = self._recipe.contribution
        shown = (one for one in reversed(self._results.values()) if not isinstance(one, bool))
        final = next(shown, None)
        formatted = "" if final is None else final
        if not isinstance(formatted, str):
            items = flatten(formatted)[: contribution.max_items]
            formatted = format_items(items, contribution.format)
        result: dict[str, Any] = {
            "success": self._error is None,
            "memoryId": self._recipe.id,
            "query": self.names.query,
            "stepResults": self._results,
            "finalOutput": final,
            "formattedOutput": formatted,
            "exitedEarly": self._has_exited,
            "contribution": {
                "section": contribution.section,
                "priority": contribution.priority,
                "weight": contribution.weight,
            },
            "variables": {"used": [*self.names.used], "missing": [*self.names.missing]},
            "warnings": self._warnings,
            "timing": {"totalMs": round(self._seconds * 1000, 3), "steps": self._timing},
        }
        if self._error is not None:
            result["error"] = self._error
        return result
