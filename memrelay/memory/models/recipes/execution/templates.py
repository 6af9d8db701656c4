"""Replace `${name}` in the parameters of a step, and check the result."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import orjson
from pydantic import ValidationError

from memrelay.memory.models.recipes.definition.recipe import CompiledStep
from memrelay.memory.models.recipes.execution.values import MISSING
from memrelay.memory.models.recipes.execution.variables import Names
from memrelay.memory.models.recipes.faults import FaultList
from memrelay.memory.models.recipes.step import StepFailed

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
        raise StepFailed("bad_param", _describe(error)) from error


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


def _describe(error: ValidationError) -> str:
    """Return the first problem with the name of its parameter."""
    first = error.errors(include_url=False, include_context=False)[0]
    name = ".".join(map(str, first["loc"]))
    rule = first["msg"].removeprefix("Value error, ")
    return f"{name}: {rule}" if name else rule


def check_early(steps: Sequence[CompiledStep], names: Names) -> None:
    """Check the parameters whose values are known before the run.

    Raises InvalidInput with all invalid ones.
    """
    faults = FaultList()
    for step in _with_templates(steps):
        values = {name: names.find_early(name) for name in _list_names(step)}
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


def _list_names(step: CompiledStep) -> tuple[str, ...]:
    return find_templates([one for name, one in step.raw.items() if name not in LITERAL_PARAMS])
