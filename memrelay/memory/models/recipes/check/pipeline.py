"""Check and compile the steps of a pipeline, in order, with their branches."""

from typing import Any, NamedTuple

from memrelay.memory.models.recipes.check.aliases import ANY, Aliases
from memrelay.memory.models.recipes.check.params import CheckedParams, check_params, takes_source
from memrelay.memory.models.recipes.check.spellings import Fields, read_fields
from memrelay.memory.models.recipes.execution.conditions import (
    Condition,
    ConditionError,
    parse_condition,
)
from memrelay.memory.models.recipes.execution.handler import all_handlers
from memrelay.memory.models.recipes.execution.templates import LITERAL_PARAMS, find_templates
from memrelay.memory.models.recipes.faults import Problems, did_you_mean, listed, quoted
from memrelay.memory.models.recipes.recipe import CompiledStep
from memrelay.memory.models.recipes.scopes import SCOPE_OF, SCOPES
from memrelay.memory.models.recipes.step import StepType, all_step_types
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
        self, given: list[Any], place: Place, level: int
    ) -> tuple[tuple[CompiledStep, ...], list[Any]]:
        """Return the valid steps of a list, and the stored form of all of them."""
        if level > MAX_LEVELS:
            message = f"steps are nested in more than {MAX_LEVELS} levels"
            self._problems.error(place, "too_deep", message)
            return (), []
        compiled, stored = list[CompiledStep](), list[Any]()
        for at, one in enumerate(given):
            self._count += 1
            if self._count == MAX_STEPS + 1:
                message = f"a recipe has at most {MAX_STEPS} steps, those of branches included"
                self._problems.error((*place, at), "too_many_steps", message)
            if self._count > MAX_STEPS:
                break
            found = self._step(one, (*place, at), level)
            if found is not None:
                compiled.append(found[0])
                stored.append(found[1])
        return tuple(compiled), stored

    def _step(
        self, given: Any, place: Place, level: int
    ) -> tuple[CompiledStep, dict[str, Any]] | None:
        if not isinstance(given, dict):
            self._problems.error(place, "bad_type", "a step must be an object")
            return None
        fields = read_fields(given, place, self._problems)
        type_ = self._type(fields, place)
        alias = self._alias(fields, type_)
        if type_ is None:
            self._aliases.returns.setdefault(alias, ANY)
            return None
        on_error = self._on_error(fields)
        source = self._sources(fields, type_)
        condition = self._condition(fields, type_)
        checked = self._params(fields, type_, place)
        branches = self._branches(fields, type_, level)
        self._aliases.returns.setdefault(alias, type_.returns)
        step = CompiledStep(
            type_,
            alias,
            pointer(place),
            checked.raw,
            checked.params,
            source,
            on_error,
            condition,
            branches.then_steps,
            branches.else_steps,
        )
        return step, {**fields.values, **branches.stored}

    def _type(self, fields: Fields, place: Place) -> StepType | None:
        name = fields.values.get("type")
        at = fields.places.get("type", (*place, "type"))
        if name in (None, ""):
            self._problems.error(at, "required", "type is missing")
            return None
        if not isinstance(name, str):
            self._problems.error(at, "bad_type", "type must be a text")
            return None
        known = all_step_types()
        if name not in known:
            message = f"unknown step type {quoted(name)}{did_you_mean(name, known)}"
            self._problems.error(at, "unknown_step", message)
        return known.get(name)

    def _alias(self, fields: Fields, type_: StepType | None) -> str:
        given = fields.values.get("alias")
        name = str(fields.values.get("type")) if type_ is None else type_.name
        return self._aliases.check(given, name, fields.places.get("alias", ()))

    def _on_error(self, fields: Fields) -> Any:
        given = fields.values.get("onError")
        if given is None or given in ON_ERROR:
            return given or "fail"
        message = f"onError must be {listed(ON_ERROR)}{did_you_mean(given, ON_ERROR)}"
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

    def _source(self, alias: object, type_: StepType, place: Place) -> None:
        returns = self._aliases.returns.get(alias) if isinstance(alias, str) else None
        if returns is None:
            hint = did_you_mean(alias, self._aliases.returns)
            message = f"no earlier step has the alias {quoted(alias)}{hint}"
            self._problems.error(place, "bad_source", message)
        elif not set(returns) & set(type_.reads):
            message = (
                f"{type_.name} reads {listed(type_.reads)}, but the result of {quoted(alias)} is "
                f"{listed(returns)}"
            )
            self._problems.error(place, "bad_source", message)

    def _condition(self, fields: Fields, type_: StepType) -> Condition | None:
        text = fields.values.get("condition")
        if type_.category != "control" or not isinstance(text, str) or not text:
            return None
        place = fields.places["condition"]
        try:
            condition = parse_condition(text)
        except ConditionError as error:
            self._problems.error(place, "bad_condition", f"the condition is invalid: {error}")
            return None
        for alias in condition.aliases:
            if alias not in self._aliases.returns:
                hint = did_you_mean(alias, self._aliases.returns)
                message = f"no earlier step has the alias {quoted(alias)}{hint}"
                self._problems.warn(place, "unknown_alias", message)
        for name in condition.variables:
            self._check_name(name, place)
        return condition

    def _params(self, fields: Fields, type_: StepType, place: Place) -> CheckedParams:
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
            at = (*fields.places.get(str(name), (*place, name)), *rest)
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
        handler, known = own.get("handler"), all_handlers()
        if not isinstance(handler, str) or not handler or handler in known:
            return not refused
        message = f"unknown handler {quoted(handler)}{did_you_mean(handler, known)}"
        self._problems.error(fields.places["handler"], "bad_custom", message)
        return False

    def _branches(self, fields: Fields, type_: StepType, level: int) -> _Branches:
        compiled, stored = dict[str, tuple[CompiledStep, ...]](), dict[str, Any]()
        for name in BRANCHES:
            given = fields.values.get(name)
            if given is None or type_.name != "conditional":
                continue
            if isinstance(given, list):
                compiled[name], stored[name] = self.steps(given, fields.places[name], level + 1)
            else:
                message = f"{name} must be a list of steps"
                self._problems.error(fields.places[name], "bad_param", message)
        return _Branches(compiled.get(BRANCHES[0], ()), compiled.get(BRANCHES[1], ()), stored)

    def _check_name(self, name: str, place: Place) -> None:
        """Warn of a name in a template or a condition that no run can resolve."""
        root = name.partition(".")[0]
        if root in self._names or root in self._aliases.returns:
            return
        if (scope := SCOPE_OF.get(root)) is not None:
            hint = f'; add "{scope}" to inputs_scope'
        else:
            hint = did_you_mean(root, (*self._names, *self._aliases.returns))
        message = f"{quoted(name)} is no declared variable and no earlier result{hint}"
        self._problems.warn(place, "unknown_variable", message)
