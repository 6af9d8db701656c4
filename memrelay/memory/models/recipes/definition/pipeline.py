"""Check and compile the steps of a pipeline, in order, with their branches."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from memrelay.memory.models.recipes.definition.params import (
    CheckedParams,
    check_params,
    takes_source,
)
from memrelay.memory.models.recipes.definition.recipe import CompiledStep
from memrelay.memory.models.recipes.definition.scopes import SCOPE_OF, SCOPES
from memrelay.memory.models.recipes.execution.conditions import (
    Condition,
    ConditionError,
    parse_condition,
)
from memrelay.memory.models.recipes.execution.templates import LITERAL_PARAMS, find_templates
from memrelay.memory.models.recipes.faults import Problems, did_you_mean, listed, quoted
from memrelay.memory.models.recipes.handlers import all_handlers
from memrelay.memory.models.recipes.step import ResultType, StepType, all_step_types, public_name
from memrelay.memory.validation import Place, pointer

MAX_STEPS = 64
MAX_LEVELS = 8
BRANCHES = ("thenSteps", "elseSteps")
# The fields that every step has.
COMMON = ("type", "alias", "onError")
ON_ERROR = ("fail", "skip")
# The parts of an intent, which are names of variables and sources of an input step.
INTENT_PARTS = ("query", "keywords", "action", "context")
# The two ways of a custom step to run code of its author. Only `handler` works.
FOREIGN_CODE = ("inlineCode", "actionBlockPath")
ALIAS = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", re.ASCII)
RESERVED = ("query", "keywords", "action", "context", "intent", "results", "count", "vars")
# Aliases of a step of unknown type have any result type.
ANY: tuple[ResultType, ...] = ("list", "groups", "text", "boolean")
NESTED = ("params", "config")


class Fields(NamedTuple):
    """The fields of a step by the seed's name, with the submitted place of each."""

    values: dict[str, Any]
    places: dict[str, Place]


class _Branches(NamedTuple):
    then_steps: tuple[CompiledStep, ...]
    else_steps: tuple[CompiledStep, ...]
    # The stored form of the branches that are present.
    stored: dict[str, Any]


class PipelineCheck:
    """The check of one pipeline."""

    def __init__(
        self, problems: Problems, scopes: tuple[str, ...], variables: tuple[str, ...]
    ) -> None:
        self._problems, self._aliases, self._count = problems, Aliases(problems), 0
        of_scopes = (name for scope in scopes for name in SCOPES.get(scope, ()))
        self._names = {*INTENT_PARTS, *variables, *of_scopes}

    def steps(
        self, submitted: list[Any], path: Place, level: int
    ) -> tuple[tuple[CompiledStep, ...], list[Any]]:
        """Return the valid steps of a list, and the stored form of all of them."""
        if level > MAX_LEVELS:
            message = f"steps are nested in more than {MAX_LEVELS} levels"
            self._problems.error(path, "too_deep", message)
            return (), []
        compiled, stored = list[CompiledStep](), list[Any]()
        for at, one in enumerate(submitted):
            self._count += 1
            if self._count == MAX_STEPS + 1:
                message = f"a recipe has at most {MAX_STEPS} steps, those of branches included"
                self._problems.error((*path, at), "too_many_steps", message)
            if self._count > MAX_STEPS:
                break
            checked = self._step(one, (*path, at), level)
            if checked is not None:
                compiled.append(checked[0])
                stored.append(checked[1])
        return tuple(compiled), stored

    def _step(
        self, submitted: Any, path: Place, level: int
    ) -> tuple[CompiledStep, dict[str, Any]] | None:
        if not isinstance(submitted, dict):
            self._problems.error(path, "bad_type", "a step must be an object")
            return None
        fields = read_fields(submitted, path, self._problems)
        type_ = self._type(fields, path)
        alias = self._alias(fields, type_)
        if type_ is None:
            self._aliases.returns.setdefault(alias, ANY)
            return None
        on_error = self._on_error(fields)
        source = self._sources(fields, type_)
        condition = self._condition(fields, type_)
        checked = self._params(fields, type_, path)
        branches = self._branches(fields, type_, level)
        self._aliases.returns.setdefault(alias, type_.returns)
        step = CompiledStep(
            type_,
            alias,
            pointer(path),
            checked.raw,
            checked.params,
            source,
            on_error,
            condition,
            branches.then_steps,
            branches.else_steps,
        )
        return step, {**fields.values, **branches.stored}

    def _type(self, fields: Fields, path: Place) -> StepType | None:
        name = fields.values.get("type")
        at = fields.places.get("type", (*path, "type"))
        if name in (None, ""):
            self._problems.error(at, "required", "type is missing")
            return None
        if not isinstance(name, str):
            self._problems.error(at, "bad_type", "type must be a text")
            return None
        types = all_step_types()
        if name not in types:
            message = f"unknown step type {quoted(name)}{did_you_mean(name, types)}"
            self._problems.error(at, "unknown_step", message)
        return types.get(name)

    def _alias(self, fields: Fields, type_: StepType | None) -> str:
        alias = fields.values.get("alias")
        name = str(fields.values.get("type")) if type_ is None else type_.name
        return self._aliases.check(alias, name, fields.places.get("alias", ()))

    def _on_error(self, fields: Fields) -> Any:
        on_error = fields.values.get("onError")
        if on_error is None or on_error in ON_ERROR:
            return on_error or "fail"
        message = f"onError must be {listed(ON_ERROR)}{did_you_mean(on_error, ON_ERROR)}"
        self._problems.error(fields.places["onError"], "bad_param", message)
        return "fail"

    def _sources(self, fields: Fields, type_: StepType) -> str:
        """Check `source` and `sources`, and return the common `source`."""
        if not type_.reads:
            return ""
        source, sources = fields.values.get("source"), fields.values.get("sources")
        # An input step also reads the intent.
        is_intent = type_.category == "input" and source in ("intent", *INTENT_PARTS)
        if source not in (None, "") and not is_intent:
            self._source(source, type_, fields.places["source"])
        if isinstance(sources, list):
            for at, one in enumerate(sources):
                self._source(one, type_, (*fields.places["sources"], at))
        return source if takes_source(type_) and isinstance(source, str) else ""

    def _source(self, alias: object, type_: StepType, path: Place) -> None:
        returns = self._aliases.returns.get(alias) if isinstance(alias, str) else None
        if returns is None:
            hint = did_you_mean(alias, self._aliases.returns)
            message = f"no earlier step has the alias {quoted(alias)}{hint}"
            self._problems.error(path, "bad_source", message)
        elif not set(returns) & set(type_.reads):
            message = (
                f"{type_.name} reads {listed(type_.reads)}, but the result of {quoted(alias)} is "
                f"{listed(returns)}"
            )
            self._problems.error(path, "bad_source", message)

    def _condition(self, fields: Fields, type_: StepType) -> Condition | None:
        text = fields.values.get("condition")
        if type_.category != "control" or not isinstance(text, str) or not text:
            return None
        path = fields.places["condition"]
        try:
            condition = parse_condition(text)
        except ConditionError as error:
            self._problems.error(path, "bad_condition", f"the condition is invalid: {error}")
            return None
        for alias in condition.aliases:
            if alias not in self._aliases.returns:
                hint = did_you_mean(alias, self._aliases.returns)
                message = f"no earlier step has the alias {quoted(alias)}{hint}"
                self._problems.warn(path, "unknown_alias", message)
        for name in condition.variables:
            self._check_name(name, path)
        return condition

    def _params(self, fields: Fields, type_: StepType, path: Place) -> CheckedParams:
        common = {*COMMON, *(("source",) if takes_source(type_) else ())}
        branches = BRANCHES if type_.name == "conditional" else ()
        own = {
            name: value
            for name, value in fields.values.items()
            if name not in common and name not in branches
        }
        is_custom_valid = self._custom(own, fields) if type_.category == "custom" else True
        checked = check_params(type_, own)
        for fault in checked.faults:
            name, *rest = fault.place or ("",)
            if name == "handler" and not is_custom_valid:
                continue
            at = (*fields.places.get(str(name), (*path, name)), *rest)
            self._problems.error(at, fault.code, fault.message)
        for name, value in own.items():
            if name not in LITERAL_PARAMS:
                for variable in find_templates(value):
                    self._check_name(variable, fields.places[name])
        return checked

    def _custom(self, own: dict[str, Any], fields: Fields) -> bool:
        """Check how a custom step runs, and remove what is refused from its parameters."""
        refused = [name for name in FOREIGN_CODE if own.pop(name, None) is not None]
        for name in refused:
            message = f"{name} is not supported, because it runs foreign code; use a handler"
            self._problems.error(fields.places[name], "bad_custom", message)
        handler, handlers = own.get("handler"), all_handlers()
        if not isinstance(handler, str) or not handler or handler in handlers:
            return not refused
        message = f"unknown handler {quoted(handler)}{did_you_mean(handler, handlers)}"
        self._problems.error(fields.places["handler"], "bad_custom", message)
        return False

    def _branches(self, fields: Fields, type_: StepType, level: int) -> _Branches:
        compiled, stored = dict[str, tuple[CompiledStep, ...]](), dict[str, Any]()
        for name in BRANCHES:
            steps = fields.values.get(name)
            if steps is None or type_.name != "conditional":
                continue
            if isinstance(steps, list):
                compiled[name], stored[name] = self.steps(steps, fields.places[name], level + 1)
            else:
                message = f"{name} must be a list of steps"
                self._problems.error(fields.places[name], "bad_param", message)
        return _Branches(compiled.get(BRANCHES[0], ()), compiled.get(BRANCHES[1], ()), stored)

    def _check_name(self, name: str, path: Place) -> None:
        """Warn of a name in a template or a condition that no run can resolve."""
        root = name.partition(".")[0]
        if root in self._names or root in self._aliases.returns:
            return
        if (scope := SCOPE_OF.get(root)) is not None:
            hint = f'; add "{scope}" to inputs_scope'
        else:
            hint = did_you_mean(root, (*self._names, *self._aliases.returns))
        message = f"{quoted(name)} is no declared variable and no earlier result{hint}"
        self._problems.warn(path, "unknown_variable", message)


class Aliases:
    """The aliases of the steps so far, with the result types of each."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self.returns: dict[str, tuple[ResultType, ...]] = {}

    def check(self, alias: object, type_name: str, path: Place) -> str:
        """Return the alias of a step, and report a malformed or used one."""
        if alias is None:
            return self._default(type_name)
        if not isinstance(alias, str) or not ALIAS.fullmatch(alias):
            rule = "an alias has 1 to 64 letters, digits, _ and -, and begins with a letter or _"
            self._problems.error(path, "bad_alias", f"{rule}, not {quoted(alias)}")
            return self._default(type_name)
        if alias in RESERVED:
            message = f'alias "{alias}" is reserved, like {listed(RESERVED)}'
            self._problems.error(path, "bad_alias", message)
        elif alias in self.returns:
            message = f'alias "{alias}" is the name of an earlier result'
            self._problems.error(path, "duplicate_alias", message)
        return alias

    def _default(self, type_name: str) -> str:
        """Return the type, then `type_2`."""
        alias, number = type_name, 1
        while alias in self.returns:
            number += 1
            alias = f"{type_name}_{number}"
        return alias


def read_fields(step: dict[str, Any], path: Place, problems: Problems) -> Fields:
    """Return the fields of a step, and report two spellings with different values."""
    fields = Fields({}, {})
    for at, value in _spelled(step, path, problems):
        spelling = str(at[-1])
        name = "type" if spelling == "step" else public_name(spelling)
        if name not in fields.values:
            fields.values[name], fields.places[name] = value, at
        elif not _are_same(fields.values[name], value):
            first = "/".join(map(str, fields.places[name][len(path) :]))
            second = "/".join(map(str, at[len(path) :]))
            message = f'"{first}" and "{second}" have different values; keep one of them'
            problems.error(at, "conflicting_keys", message)
    return fields


def _spelled(step: dict[str, Any], path: Place, problems: Problems) -> Iterator[tuple[Place, Any]]:
    for key, value in step.items():
        if key not in NESTED:
            yield (*path, key), value
        elif isinstance(value, dict):
            yield from (((*path, key, name), one) for name, one in value.items())
        elif value is not None:
            problems.error((*path, key), "bad_param", f"{key} must be an object")


def _are_same(one: Any, other: Any) -> bool:
    """Return whether two JSON values are equal; `1` and `true` differ."""
    return type(one) is type(other) and bool(one == other)
