"""Check definitions of recipes: every error at once, each with a JSON pointer and a code."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

import orjson

from memrelay.memory.errors import Fault
from memrelay.memory.models.recipes.check.declared import check_variables
from memrelay.memory.models.recipes.check.pipeline import PipelineCheck
from memrelay.memory.models.recipes.faults import Problems, did_you_mean, listed, quoted
from memrelay.memory.models.recipes.recipe import (
    WEIGHTS,
    Contribution,
    ContributionFormat,
    Recipe,
    Variable,
)
from memrelay.memory.models.recipes.scopes import SCOPES
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


def encode_definition(definition: Mapping[str, Any]) -> str:
    """Return the canonical JSON of a definition: known keys first, then the others sorted."""
    return orjson.dumps(_ordered(definition)).decode()


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
        self._definition, self._problems = definition, problems

    def recipe(self) -> Recipe:
        """Return the compiled definition. It is usable only without errors."""
        self._warn_unknown(self._definition, KEYS, ())
        head = {
            "id": self._id(),
            "label": self._required_text("label"),
            "description": self._text(self._definition, "description", (), ""),
            "version": self._version(),
            "status": self._choice(self._definition, "status", (), STATUSES, "active"),
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
        if isinstance(given := stored.get("contribution"), dict):
            stored["contribution"] = _without_nulls(given, CONTRIBUTION_KEYS)
        return Recipe(
            **head,
            inputs_scope=scopes,
            variables=variables,
            steps=steps,
            contribution=contribution,
            definition=_ordered(stored),
        )

    def _id(self) -> str:
        given = self._required_text("id")
        if given and not ID.fullmatch(given):
            self._problems.error(("id",), "bad_id", f"id must be {ID_RULE}, not {quoted(given)}")
        return given

    def _required_text(self, name: str) -> str:
        if self._definition.get(name) in (None, ""):
            self._problems.error((name,), "required", f"{name} is missing")
            return ""
        return self._text(self._definition, name, (), "")

    def _version(self) -> str:
        given = self._text(self._definition, "version", (), "1.0.0")
        if not VERSION.fullmatch(given):
            self._problems.error(
                ("version",),
                "bad_version",
                f"version must be a semantic version such as 1.0.0, not {quoted(given)}",
            )
        return given

    def _scopes(self) -> tuple[str, ...]:
        given = self._definition.get("inputs_scope")
        if given is None:
            return ()
        if not isinstance(given, list):
            self._bad_type(("inputs_scope",), "a list of scopes")
            return ()
        for at, scope in enumerate(given):
            self._check_choice(scope, ("inputs_scope", at), SCOPES, "a scope")
        return tuple(dict.fromkeys(scope for scope in given if isinstance(scope, str)))

    def _steps(
        self, scopes: tuple[str, ...], variables: tuple[Variable, ...], stored: dict[str, Any]
    ) -> tuple[Any, ...]:
        """Return the compiled steps, and replace the submitted ones in `stored`."""
        retrieval = self._object("retrieval")
        self._warn_unknown(retrieval, ("pipeline",), ("retrieval",))
        pipeline, place = retrieval.get("pipeline"), ("retrieval", "pipeline")
        if pipeline is not None and not isinstance(pipeline, list):
            self._bad_type(place, "a list of steps")
            return ()
        if not pipeline:
            self._problems.warn(place, "empty_pipeline", "the recipe has no steps")
            return ()
        names = tuple(variable.name for variable in variables)
        check = PipelineCheck(self._problems, scopes, names)
        compiled, rewritten = check.steps(pipeline, place, level=1)
        stored["retrieval"] = {**retrieval, "pipeline": rewritten}
        return compiled

    def _contribution(self) -> Contribution:
        given, place = self._object("contribution"), ("contribution",)
        default = Contribution()
        self._warn_unknown(given, CONTRIBUTION_KEYS, place)
        max_items = given.get("max_items")
        if max_items is None:
            max_items = default.max_items
        elif not isinstance(max_items, int) or isinstance(max_items, bool):
            self._bad_type((*place, "max_items"), "a whole number")
        elif not 1 <= max_items <= MAX_ITEMS:
            message = f"max_items must be 1 to {MAX_ITEMS}, not {max_items}"
            self._problems.error((*place, "max_items"), "out_of_range", message)
        return Contribution(
            self._choice(given, "section", place, SECTIONS, default.section),
            self._choice(given, "priority", place, WEIGHTS, default.priority),
            self._choice(given, "format", place, FORMATS, default.format),
            max_items,
        )

    def _object(self, name: str) -> dict[str, Any]:
        given = self._definition.get(name)
        if given is None or isinstance(given, dict):
            return given or {}
        self._bad_type((name,), "an object")
        return {}

    def _text(self, fields: Mapping[str, Any], name: str, place: Place, default: str) -> str:
        given = fields.get(name)
        if given is None or isinstance(given, str):
            return default if given is None else given
        self._bad_type((*place, name), "a text")
        return default

    def _choice(
        self, fields: Mapping[str, Any], name: str, place: Place, known: Any, default: str
    ) -> Any:
        given = fields.get(name)
        if given is None:
            return default
        self._check_choice(given, (*place, name), known, name)
        return given

    def _check_choice(self, given: Any, place: Place, known: Any, name: str) -> None:
        if not isinstance(given, str):
            self._bad_type(place, "a text")
        elif given not in known:
            self._problems.error(
                place,
                "bad_enum",
                f"{name} must be {listed(known)}, not {quoted(given)}{did_you_mean(given, known)}",
            )

    def _bad_type(self, place: Place, wanted: str) -> None:
        self._problems.error(place, "bad_type", f"{place[-1]} must be {wanted}")

    def _warn_unknown(self, fields: Mapping[str, Any], known: tuple[str, ...], at: Place) -> None:
        for key in fields:
            if key not in known:
                message = f"unknown key {quoted(key)}{did_you_mean(key, known)}; it has no effect"
                self._problems.warn((*at, key), "unknown_key", message)


def _without_nulls(fields: Mapping[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    """Return the fields without known ones that are null, which count as absent."""
    return {name: one for name, one in fields.items() if one is not None or name not in known}


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: (_RANK.get(key, len(_RANK)), key))
        return {key: _ordered(value[key]) for key in keys}
    return [_ordered(one) for one in value] if isinstance(value, list) else value
