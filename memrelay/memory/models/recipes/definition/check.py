"""Check definitions of recipes: every error at once, each with a JSON pointer and a code.

The steps of a pipeline are checked and compiled in order with their branches, their parameters
against the dataclass of the step's type.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, NamedTuple, get_args

import orjson
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from memrelay.memory.errors import Fault, InvalidInput
from memrelay.memory.models.recipes.definition.recipe import (
    SCOPE_OF,
    SCOPES,
    WEIGHTS,
    CompiledStep,
    Contribution,
    ContributionFormat,
    Recipe,
    Variable,
)
from memrelay.memory.models.recipes.execution.conditions import (
    Condition,
    ConditionError,
    parse_condition,
)
from memrelay.memory.models.recipes.execution.run import (
    LITERAL_PARAMS,
    find_templates,
    has_templates,
)
from memrelay.memory.models.recipes.faults import Problems, did_you_mean, listed, quoted
from memrelay.memory.models.recipes.handlers import all_handlers
from memrelay.memory.models.recipes.step import ResultType, StepType, all_step_types, public_name
from memrelay.memory.validation import Place, pointer

UNKNOWN = ("unexpected_keyword_argument", "extra_forbidden")
ABSENT = ("missing", "missing_argument")
_CHOICE = re.compile(r"'([^']*)'")


class ParamFault(NamedTuple):
    """An invalid parameter. `place` begins with its name in the seed's spelling."""

    place: Place
    code: str
    message: str


class CheckedParams(NamedTuple):
    # The parameters without empty optional ones.
    raw: dict[str, Any]
    # An instance of the type's dataclass; None with faults or templates.
    params: Any
    faults: list[ParamFault]


def check_params(type_: StepType, submitted: Mapping[str, Any]) -> CheckedParams:
    """Check parameters by their names in the seed's spelling.

    A value with a template passes. An optional parameter that is "" counts as absent if its type
    accepts no text.
    """
    raw = dict(submitted)
    for name in required_names(type_):
        if raw.get(name) == "":
            del raw[name]
    params, faults = _validate(type_, raw)
    names = [str(fault.place[0]) for fault in faults]
    empty = [name for name in names if raw.get(name) == ""]
    if empty:
        raw = {name: value for name, value in raw.items() if name not in empty}
        params, faults = _validate(type_, raw)
    others = [value for name, value in raw.items() if name not in LITERAL_PARAMS]
    return CheckedParams(raw, None if any(map(has_templates, others)) else params, faults)


def _validate(type_: StepType, raw: Mapping[str, Any]) -> tuple[Any, list[ParamFault]]:
    try:
        return type_.adapter.validate_json(orjson.dumps(raw), strict=True), []
    except ValidationError as error:
        return None, list(_list_faults(type_, raw, error))


def _list_faults(
    type_: StepType, raw: Mapping[str, Any], error: ValidationError
) -> Iterator[ParamFault]:
    for one in error.errors(include_url=False, include_context=False):
        path, value = _locate(one["loc"], raw)
        name = str(one["loc"][0]) if one["loc"] else ""
        if one["type"] in UNKNOWN and len(one["loc"]) == 1:
            names = (*type_names(type_), *(("source",) if takes_source(type_) else ()))
            message = f"{type_.name} has no parameter {quoted(name)}{did_you_mean(name, names)}"
            yield ParamFault(path, "unknown_param", message)
        elif one["type"] in ABSENT and len(one["loc"]) == 1:
            yield ParamFault((name,), "missing_param", f"{type_.name} needs the parameter {name}")
        # The value of a template is known only in a run.
        elif name in LITERAL_PARAMS or not has_templates(value):
            yield ParamFault(path, "bad_param", _message(one, path, value))


def _locate(loc: tuple[int | str, ...], raw: Mapping[str, Any]) -> tuple[Place, Any]:
    """Return the deepest existing place on the path of an error, and its value."""
    path: Place = ()
    value: Any = raw
    for part in loc:
        is_there = (
            part in value
            if isinstance(value, Mapping)
            else isinstance(value, list) and isinstance(part, int) and part < len(value)
        )
        if not is_there:
            break
        path, value = (*path, part), value[part]
    return path, value


def _message(error: ErrorDetails, path: Place, value: Any) -> str:
    rule = error["msg"].replace("Input should ", "must ").replace("Value error, ", "")
    name = ".".join(map(str, path))
    hint = did_you_mean(value, _CHOICE.findall(rule)) if error["type"] == "literal_error" else ""
    return f"{name} {rule}{hint}" if rule.startswith("must ") else f"{name}: {rule}{hint}"


def type_names(type_: StepType) -> tuple[str, ...]:
    """Return the names of a type's own parameters in the seed's spelling."""
    return tuple(public_name(field.name) for field in fields(type_.params))


def required_names(type_: StepType) -> tuple[str, ...]:
    """Return the names of the parameters without default."""
    return tuple(
        public_name(field.name)
        for field in fields(type_.params)
        if field.default is MISSING and field.default_factory is MISSING
    )


def takes_source(type_: StepType) -> bool:
    """Return whether `source` is a field of every step of that type, and not its parameter."""
    return bool(type_.reads) and not {"source", "sources"} & set(type_names(type_))


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
        type_name = str(fields.values.get("type")) if type_ is None else type_.name
        alias_path = fields.places.get("alias", ())
        alias = self._aliases.check(fields.values.get("alias"), type_name, alias_path)
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
            if alias not in self._aliases.returns and self._problems.takes_warnings:
                hint = self._problems.hint(alias, self._aliases.returns)
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
        is_known = root in self._names or root in self._aliases.returns
        if is_known or not self._problems.takes_warnings:
            return
        if (scope := SCOPE_OF.get(root)) is not None:
            hint = f'; add "{scope}" to inputs_scope'
        else:
            hint = self._problems.hint(root, (*self._names, *self._aliases.returns))
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
            continue
        # Equal values of different types differ: `1` and `true`.
        earlier = fields.values[name]
        if type(earlier) is not type(value) or earlier != value:
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


MAX_BYTES = 256 * 1024
MAX_KEYS = 2000
MAX_VARIABLES = 200
MAX_SCOPES = 64
MAX_ITEMS = 1000
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
ID_RULE = "1 to 64 letters, digits and ._- that begin with a letter or digit"
VERSION = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)
STATUSES = ("active", "deprecated")
SECTIONS = (
    "state",
    "warnings",
    "knowledge",
    "history",
    "constraints",
    "suggestions",
    "working_memory",
)
FORMATS: tuple[str, ...] = get_args(ContributionFormat)
KEYS = (
    "id",
    "label",
    "description",
    "version",
    "status",
    "inputs_scope",
    "additional_variables",
    "retrieval",
    "contribution",
)
CONTRIBUTION_KEYS = ("section", "priority", "format", "max_items")
# The server adds these to its answers, and drops them from a definition.
SERVER_KEYS = ("createdAt", "updatedAt")
# Keys of a stored object in this order, then all others.
_FIRST = (
    *KEYS,
    "pipeline",
    *CONTRIBUTION_KEYS,
    *("name", "type", "alias", "source", "condition", "thenSteps", "elseSteps"),
)
_RANK = {key: rank for rank, key in enumerate(_FIRST)}
VARIABLE_NAME = re.compile(r"[a-z0-9_]+", re.ASCII)
VARIABLE_KEYS = ("name", "description", "required", "type", "default")
VARIABLES = "additional_variables"


@dataclass(frozen=True, slots=True)
class Checked:
    # None if there are errors.
    recipe: Recipe | None
    errors: tuple[Fault, ...]
    warnings: tuple[Fault, ...]


def check_definition(submitted: Any) -> Checked:
    """Check a definition and compile it."""
    problems, recipe = Problems(), None
    try:
        definition = _as_object(submitted, problems)
        if definition is not None:
            recipe = _DefinitionCheck(definition, problems).recipe()
    except InvalidInput:
        recipe = None  # the list of errors is full
    errors, warnings = problems.errors.found, problems.warnings
    return Checked(None if errors else recipe, tuple(errors), tuple(warnings))


def _as_object(submitted: Any, problems: Problems) -> dict[str, Any] | None:
    """Return the definition as plain JSON values, None if it is no usable object."""
    try:
        text = orjson.dumps(submitted)
    except orjson.JSONEncodeError as error:
        problems.error((), "bad_type", f"the definition is not JSON: {error}")
        return None
    if len(text) > MAX_BYTES:
        problems.error(
            (), "too_large", f"the definition has {len(text)} bytes; the limit is {MAX_BYTES}"
        )
        return None
    definition = orjson.loads(text)
    if _has_more_keys(definition, MAX_KEYS):
        message = f"the definition has more than {MAX_KEYS} keys in its objects"
        problems.error((), "too_large", message)
        return None
    if not isinstance(definition, dict):
        problems.error((), "bad_type", "the definition must be an object")
        return None
    return {key: value for key, value in definition.items() if key not in SERVER_KEYS}


def _has_more_keys(value: Any, most: int) -> bool:
    """Return whether all objects inside a JSON value have more than `most` keys together."""
    keys, waiting = 0, [value]
    while waiting and keys <= most:
        one = waiting.pop()
        if isinstance(one, dict):
            keys += len(one)
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    return keys > most


class _DefinitionCheck:
    def __init__(self, definition: dict[str, Any], problems: Problems) -> None:
        self._definition = definition
        self._problems, self._errors = problems, problems.errors

    def recipe(self) -> Recipe:
        """Return the compiled definition. It is usable only without errors."""
        self._problems.warn_unknown(self._definition, (), KEYS)
        id_ = self._text("id", needed=True)
        if id_ and not ID.fullmatch(id_):
            self._errors.add(("id",), "bad_id", f"id must be {ID_RULE}, not {quoted(id_)}")
        label, description = self._text("label", needed=True), self._text("description")
        version = self._text("version", DEFAULTS["version"])
        if not VERSION.fullmatch(version):
            rule = f"must be a semantic version such as 1.0.0, not {quoted(version)}"
            self._errors.add(("version",), "bad_version", f"version {rule}")
        status: Any = self._choice(self._definition, ("status",), STATUSES, DEFAULTS["status"])
        scopes = self._scopes()
        variables, declared = check_variables(
            self._definition.get("additional_variables"), self._problems
        )
        stored = _without_nulls(self._definition, KEYS)
        if declared is not None:
            stored["additional_variables"] = declared
        steps = self._steps(scopes, variables, stored)
        contribution = self._contribution()
        if isinstance(submitted := stored.get("contribution"), dict):
            stored["contribution"] = _without_nulls(submitted, CONTRIBUTION_KEYS)
        return Recipe(
            id=id_,
            label=label,
            description=description,
            version=version,
            status=status,
            inputs_scope=scopes,
            variables=variables,
            steps=steps,
            contribution=contribution,
            definition=_ordered(stored),
        )

    def _scopes(self) -> tuple[str, ...]:
        path = "inputs_scope"
        scopes = self._definition.get(path)
        if scopes is None:
            return ()
        listed_scopes = self._errors.take_list(scopes, (path,), MAX_SCOPES)
        for at, scope in enumerate(listed_scopes):
            self._errors.take_choice(scope, (path, at), SCOPES)
        return tuple(dict.fromkeys(scope for scope in listed_scopes if isinstance(scope, str)))

    def _steps(
        self, scopes: tuple[str, ...], variables: tuple[Variable, ...], stored: dict[str, Any]
    ) -> tuple[CompiledStep, ...]:
        """Return the compiled steps, and replace the submitted ones in `stored`."""
        retrieval = self._object("retrieval")
        self._problems.warn_unknown(retrieval, ("retrieval",), ("pipeline",))
        path = ("retrieval", "pipeline")
        pipeline = retrieval.get("pipeline")
        pipeline = [] if pipeline is None else self._errors.take_list(pipeline, path)
        if not pipeline:
            self._problems.warn(path, "empty_pipeline", "the recipe has no steps")
            return ()
        names = tuple(variable.name for variable in variables)
        check = PipelineCheck(self._problems, scopes, names)
        compiled, rewritten = check.steps(pipeline, path, level=1)
        stored["retrieval"] = {**retrieval, "pipeline": rewritten}
        return compiled

    def _contribution(self) -> Contribution:
        fields, name = self._object("contribution"), "contribution"
        default = Contribution()
        self._problems.warn_unknown(fields, (name,), CONTRIBUTION_KEYS)
        max_items = fields.get("max_items")
        if max_items is None:
            max_items = default.max_items
        priority: Any = self._choice(fields, (name, "priority"), WEIGHTS, default.priority)
        format_: Any = self._choice(fields, (name, "format"), FORMATS, default.format)
        return Contribution(
            self._choice(fields, (name, "section"), SECTIONS, default.section),
            priority,
            format_,
            self._errors.take_integer(max_items, (name, "max_items"), 1, MAX_ITEMS),
        )

    def _object(self, name: str) -> dict[str, Any]:
        value = self._definition.get(name)
        return {} if value is None else self._errors.take_object(value, (name,))

    def _text(self, name: str, default: str = "", *, needed: bool = False) -> str:
        value = self._definition.get(name)
        if value is None and not needed:
            return default
        return self._errors.take_text(value, (name,), needed=needed)

    def _choice(
        self, fields: Mapping[str, Any], path: tuple[str, ...], known: Collection[str], default: str
    ) -> str:
        value = fields.get(path[-1])
        return default if value is None else self._errors.take_choice(value, path, known)


def _without_nulls(fields: Mapping[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    """Return the fields without known ones that are null, which count as absent."""
    return {name: one for name, one in fields.items() if one is not None or name not in known}


# The fields of a definition that have a default.
DEFAULTS: Mapping[str, Any] = {
    "description": "",
    "version": "1.0.0",
    "status": STATUSES[0],
    "inputs_scope": [],
    "additional_variables": [],
    "retrieval": {"pipeline": []},
    "contribution": asdict(Contribution()),
}


def with_defaults(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored definition with the default of each absent field."""
    nested = {
        name: {**DEFAULTS[name], **_without_nulls(definition.get(name, {}), tuple(DEFAULTS[name]))}
        for name in ("retrieval", "contribution")
    }
    completed: dict[str, Any] = _ordered({**DEFAULTS, **definition, **nested})
    return completed


def encode_definition(definition: Mapping[str, Any]) -> str:
    """Return the canonical JSON of a definition: known keys first, then the others sorted."""
    return orjson.dumps(_ordered(definition)).decode()


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: (_RANK.get(key, len(_RANK)), key))
        return {key: _ordered(value[key]) for key in keys}
    if isinstance(value, list):
        return [_ordered(element) for element in value]
    return value


def check_variables(
    declared: Any, problems: Problems
) -> tuple[tuple[Variable, ...], list[dict[str, Any]] | None]:
    """Check `additional_variables`: a list, or a map by name.

    Return the valid variables, and their stored list; None if none are declared.
    """
    if declared is None:
        return (), None
    if not isinstance(declared, list | dict):
        message = f"{VARIABLES} must be a list, or an object by name"
        problems.error((VARIABLES,), "bad_type", message)
        return (), None
    if len(declared) > MAX_VARIABLES:
        message = f"{VARIABLES} has more than {MAX_VARIABLES} variables"
        problems.error((VARIABLES,), "out_of_range", message)
        return (), None
    variables, stored = dict[str, Variable](), list[dict[str, Any]]()
    for path, entry in _list_entries(declared):
        if not isinstance(entry, dict):
            problems.error(path, "bad_type", "a variable must be an object")
            continue
        stored.append(entry)
        variable = _check_variable(entry, path, variables, problems)
        if variable is not None:
            variables[variable.name] = variable
    return tuple(variables.values()), stored


def _list_entries(declared: list[Any] | dict[str, Any]) -> list[tuple[Place, Any]]:
    """Return each variable with its path. The name of a map's entry is its key."""
    if isinstance(declared, list):
        return [((VARIABLES, at), entry) for at, entry in enumerate(declared)]
    return [
        ((VARIABLES, name), {**entry, "name": name} if isinstance(entry, dict) else entry)
        for name, entry in declared.items()
    ]


def _check_variable(
    entry: dict[str, Any], path: Place, earlier: dict[str, Variable], problems: Problems
) -> Variable | None:
    problems.warn_unknown(entry, path, VARIABLE_KEYS)
    for key in ("description", "type"):
        if entry.get(key) is not None:
            problems.errors.take_text(entry[key], (*path, key))
    if entry.get("required") is not None:
        problems.errors.take_boolean(entry["required"], (*path, "required"))
    name = entry.get("name") or ""
    if not isinstance(name, str):
        problems.error((*path, "name"), "bad_type", "name must be a text")
        return None
    if (rule := _find_name_fault(name, earlier)) is not None:
        problems.error((*path, "name"), "bad_variable", rule)
        return None
    return Variable(name, entry.get("required") is True, entry.get("default"))


def _find_name_fault(name: str, earlier: dict[str, Variable]) -> str | None:
    if not VARIABLE_NAME.fullmatch(name):
        return f"the name of a variable consists of a-z, 0-9 and _, not {quoted(name)}"
    if name in earlier:
        return f'variable "{name}" is declared twice'
    if name in RESERVED:
        return f'"{name}" is reserved; use another name'
    if name in SCOPE_OF:
        return f'"{name}" is a variable of the scope "{SCOPE_OF[name]}"; add it to inputs_scope'
    return None
