"""Check the parameters of a step against the dataclass of its type."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from typing import Any, NamedTuple

import orjson
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from memrelay.memory.models.recipes.execution.templates import LITERAL_PARAMS, has_templates
from memrelay.memory.models.recipes.faults import did_you_mean, quoted
from memrelay.memory.models.recipes.step import StepType, public_name
from memrelay.memory.validation import Place

UNKNOWN = ("unexpected_keyword_argument", "extra_forbidden")
ABSENT = ("missing", "missing_argument")
_CHOICE = re.compile(r"'([^']*)'")


class ParamFault(NamedTuple):
    """An invalid parameter. `place` begins with its name in the seed's spelling."""

    place: Place
    code: str
    message: str


class CheckedParams(NamedTuple):
    """The result of a check."""

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
    return CheckedParams(raw, None if has_param_templates(raw) else params, faults)


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
        elif not _is_open(value, name):
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


def _is_open(value: Any, name: str) -> bool:
    """Return whether the value is known only in a run."""
    return name not in LITERAL_PARAMS and has_templates(value)


def _message(error: ErrorDetails, path: Place, value: Any) -> str:
    rule = error["msg"].replace("Input should ", "must ").replace("Value error, ", "")
    name = ".".join(map(str, path))
    hint = did_you_mean(value, _CHOICE.findall(rule)) if error["type"] == "literal_error" else ""
    return f"{name} {rule}{hint}" if rule.startswith("must ") else f"{name}: {rule}{hint}"


def has_param_templates(raw: Mapping[str, Any]) -> bool:
    """Return whether a run replaces something in these parameters."""
    return any(has_templates(value) for name, value in raw.items() if name not in LITERAL_PARAMS)


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
