"""The inputs of rules and recipes: variables of scopes, additional variables, and the text."""

import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import WithJsonSchema

from memrelay.memory.models.recipes.assembly.faults import InputFaults
from memrelay.memory.models.recipes.scopes import scope_fault

ADDITIONAL_NAME = re.compile(r"[a-z0-9_]{1,64}")
TEXT_FIELD = "input.text"
MAX_TEXT_CHARACTERS = 16_000
MAX_VARIABLES = 256
_OBJECT = {"type": "object", "additionalProperties": True}
_TEXT = {"type": "string"}
_NULL = {"type": "null"}
# Types of input fields whose faults are collected by `read_inputs` or `check_engine`, so that all
# faults of a call come at once.
AnyObject = Annotated[Any, WithJsonSchema(_OBJECT)]
ObjectOrNull = Annotated[Any, WithJsonSchema({"anyOf": [_OBJECT, _NULL]})]
ObjectTextOrNull = Annotated[Any, WithJsonSchema({"anyOf": [_OBJECT, _TEXT, _NULL]})]
AnyText = Annotated[Any, WithJsonSchema(_TEXT)]
TextOrNull = Annotated[Any, WithJsonSchema({"anyOf": [_TEXT, _NULL]})]
TextList = Annotated[Any, WithJsonSchema({"type": "array", "items": _TEXT})]
TextListOrNull = Annotated[
    Any, WithJsonSchema({"anyOf": [{"type": "array", "items": _TEXT}, _NULL]})
]


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of an evaluation or an assembly."""

    # {scope: {variable: value}}.
    scopes: dict[str, dict[str, Any]]
    additional: dict[str, Any]
    text: str

    def values(self) -> dict[str, Any]:
        """Return the values by the names that rules use. Null values are left out."""
        named = {
            f"scope.{scope}.{name}": value
            for scope, variables in self.scopes.items()
            for name, value in variables.items()
        }
        named |= {f"addVar.{name}": value for name, value in self.additional.items()}
        named |= {TEXT_FIELD: self.text or None}
        return {name: value for name, value in named.items() if value is not None}


def read_inputs(given: Any, faults: InputFaults) -> Inputs:
    """Read the inputs of a request with `scope_variables`, `additional_variables` and `input`."""
    return Inputs(
        _read_scopes(given.scope_variables, faults),
        _read_additional(given.additional_variables, faults),
        _read_text(given.input, faults),
    )


def _read_scopes(given: Any, faults: InputFaults) -> dict[str, dict[str, Any]]:
    place = "scope_variables"
    if given is None:
        faults.add((place,), "required", f"{place} is missing (it may be {{}})")
        return {}
    if not isinstance(given, dict):
        faults.add((place,), "bad_type", f"{place} must be an object of objects by scope")
        return {}
    for scope, variables in given.items():
        if rule := scope_fault(scope):
            faults.add((place, scope), "bad_enum", rule)
        elif not isinstance(variables, dict):
            faults.add((place, scope), "bad_type", f"scope {scope} must be an object")
        else:
            _check_variables(scope, variables, faults)
    return {scope: one for scope, one in given.items() if isinstance(one, dict)}


def _check_variables(scope: str, variables: dict[str, Any], faults: InputFaults) -> None:
    for name, value in variables.items():
        place = ("scope_variables", scope, name)
        if rule := scope_fault(scope, name):
            faults.add(place, "bad_variable", rule)
        elif isinstance(value, dict | list):
            faults.add(place, "bad_type", f"{name} must be a text, a number, true or false")


def _read_additional(given: Any, faults: InputFaults) -> dict[str, Any]:
    place = "additional_variables"
    if given is None:
        return {}
    if not isinstance(given, dict):
        faults.add((place,), "bad_type", f"{place} must be an object of values by name")
        return {}
    if len(given) > MAX_VARIABLES:
        faults.add((place,), "out_of_range", f"{place} has more than {MAX_VARIABLES} names")
    for name in given:
        if not ADDITIONAL_NAME.fullmatch(name):
            rule = f'"{name[:64]}" is no name of a variable: use a to z, 0 to 9 and _'
            faults.add((place, name), "bad_variable", rule)
    return given


def _read_text(given: Any, faults: InputFaults) -> str:
    if given is None:
        return ""
    if isinstance(given, str):
        return faults.take_text(given, ("input",), MAX_TEXT_CHARACTERS)
    if not isinstance(given, dict):
        faults.add(("input",), "bad_type", 'input must be a text or {"text": "..."}')
        return ""
    text = faults.take_object(given, ("input",), ("text",)).get("text")
    return "" if text is None else faults.take_text(text, ("input", "text"), MAX_TEXT_CHARACTERS)
