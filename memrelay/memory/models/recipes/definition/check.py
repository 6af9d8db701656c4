"""Check definitions of recipes: every error at once, each with a JSON pointer and a code."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, get_args

import orjson

from memrelay.memory.errors import Fault
from memrelay.memory.models.recipes.definition.pipeline import RESERVED, PipelineCheck
from memrelay.memory.models.recipes.definition.recipe import (
    WEIGHTS,
    CompiledStep,
    Contribution,
    ContributionFormat,
    Recipe,
    Variable,
)
from memrelay.memory.models.recipes.definition.scopes import SCOPE_OF, SCOPES
from memrelay.memory.models.recipes.faults import Problems, quoted
from memrelay.memory.validation import Place

MAX_BYTES = 256 * 1024
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
    """The result of a check."""

    # None if there are errors.
    recipe: Recipe | None
    errors: tuple[Fault, ...]
    warnings: tuple[Fault, ...]


def check_definition(submitted: Any) -> Checked:
    """Check a definition and compile it."""
    problems = Problems()
    definition = _as_object(submitted, problems)
    recipe = None if definition is None else _DefinitionCheck(definition, problems).recipe()
    errors, warnings = problems.errors.found, problems.warnings.found
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
    if not isinstance(definition, dict):
        problems.error((), "bad_type", "the definition must be an object")
        return None
    return {key: value for key, value in definition.items() if key not in SERVER_KEYS}


class _DefinitionCheck:
    """The check of one definition."""

    def __init__(self, definition: dict[str, Any], problems: Problems) -> None:
        self._definition = definition
        self._problems, self._errors = problems, problems.errors

    def recipe(self) -> Recipe:
        """Return the compiled definition. It is usable only without errors."""
        self._problems.warn_unknown(self._definition, (), KEYS)
        head: dict[str, Any] = {
            "id": self._id(),
            "label": self._text("label", needed=True),
            "description": self._text("description"),
            "version": self._version(),
            "status": self._choice(self._definition, ("status",), STATUSES, "active"),
        }
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
            **head,
            inputs_scope=scopes,
            variables=variables,
            steps=steps,
            contribution=contribution,
            definition=_ordered(stored),
        )

    def _id(self) -> str:
        id_ = self._text("id", needed=True)
        if id_ and not ID.fullmatch(id_):
            self._errors.add(("id",), "bad_id", f"id must be {ID_RULE}, not {quoted(id_)}")
        return id_

    def _version(self) -> str:
        version = self._text("version", "1.0.0")
        if not VERSION.fullmatch(version):
            rule = f"must be a semantic version such as 1.0.0, not {quoted(version)}"
            self._errors.add(("version",), "bad_version", f"version {rule}")
        return version

    def _scopes(self) -> tuple[str, ...]:
        path = "inputs_scope"
        scopes = self._definition.get(path)
        if scopes is None:
            return ()
        listed_scopes = self._errors.take_list(scopes, (path,))
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
