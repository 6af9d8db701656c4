"""Fill in the templates of a step's parameters, and check the result."""

from collections.abc import Iterator, Sequence
from typing import Any

import orjson
from pydantic import ValidationError

from memrelay.memory.errors import Fault, InvalidInput
from memrelay.memory.models.recipes.execution.templates import (
    LITERAL_PARAMS,
    Resolve,
    find_templates,
    has_templates,
    substitute,
)
from memrelay.memory.models.recipes.execution.values import MISSING
from memrelay.memory.models.recipes.execution.variables import Names
from memrelay.memory.models.recipes.recipe import CompiledStep
from memrelay.memory.models.recipes.step import StepFailed

# Steps of these categories return no items if a parameter lacks its variable.
READING = ("retrieval", "expansion")
# The most bytes that all results of a run have, and the values in the parameters of one step.
MAX_BYTES = 8 << 20


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


def check_early(steps: Sequence[CompiledStep], names: Names) -> None:
    """Check the parameters whose values are known before the run.

    Raises InvalidInput with all invalid ones.
    """
    faults: list[Fault] = []
    for step in _with_templates(steps):
        known = {name: one for name in _names_of(step) if (one := names.find_early(name)) != ""}
        if not known or any(value is MISSING for value in known.values()):
            continue
        try:
            fill_params(step, lambda name, known=known: known.get(name, ""))  # type: ignore[misc]
        except (StepFailed, BoundExceeded) as error:
            pointer = names.pointer(next(iter(known)))
            faults.append(Fault(pointer, error.code, f"{step.alias}: {error}"))
        except Unresolved:
            continue
    if faults:
        raise InvalidInput("; ".join(fault.message for fault in faults), faults)


def _noting(resolve: Resolve, lacking: list[str]) -> Resolve:
    def noted(name: str) -> Any:
        value = resolve(name)
        if value is MISSING:
            lacking.append(name)
        return value

    return noted


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


def _with_templates(steps: Sequence[CompiledStep]) -> Iterator[CompiledStep]:
    for step in steps:
        if step.params is None:
            yield step
        yield from _with_templates(step.then_steps)
        yield from _with_templates(step.else_steps)


def _names_of(step: CompiledStep) -> tuple[str, ...]:
    return find_templates([one for name, one in step.raw.items() if name not in LITERAL_PARAMS])


def _describe(error: ValidationError) -> str:
    """Return the first problem with the name of its parameter."""
    first = error.errors(include_url=False, include_context=False)[0]
    place = ".".join(map(str, first["loc"]))
    rule = first["msg"].removeprefix("Value error, ")
    return f"{place}: {rule}" if place else rule
