"""The inputs of rules and recipes: variables of scopes, additional variables, and the text."""

import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import WithJsonSchema

from memrelay.memory.models.recipes.definition.scopes import scope_fault
from memrelay.memory.models.recipes.faults import FaultList

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


def read_inputs(request: Any, faults: FaultList) -> Inputs:
    """Read the inputs of a request with `scope_variables`, `additional_variables` and `input`."""
    return Inputs(
        _read_scopes(request.scope_variables, faults),
        _read_additional(request.additional_variables, faults),
        _read_text(request.input, faults),
    )


def _read_scopes(submitted: Any, faults: FaultList) -> dict[str, dict[str, Any]]:
    field = "scope_variables"
    if submitted is None:
        faults.add((field,), "required", f"{field} is missing (it may be {{}})")
        return {}
    if not isinstance(submitted, dict):
        faults.add((field,), "bad_type", f"{field} must be an object of objects by scope")
        return {}
    for scope, variables in submitted.items():
        if rule := scope_fault(scope):
            faults.add((field, scope), "bad_enum", rule)
        elif not isinstance(variables, dict):
            faults.add((field, scope), "bad_type", f"scope {scope} must be an object")
        else:
            _check_variables(scope, variables, faults)
    return {scope: one for scope, one in submitted.items() if isinstance(one, dict)}


def _check_variables(scope: str, variables: dict[str, Any], faults: FaultList) -> None:
    for name, value in variables.items():
        path = ("scope_variables", scope, name)
        if rule := scope_fault(scope, name):
            faults.add(path, "bad_variable", rule)
        elif isinstance(value, dict | list):
            faults.add(path, "bad_type", f"{name} must be a text, a number, true or false")


def _read_additional(submitted: Any, faults: FaultList) -> dict[str, Any]:
    field = "additional_variables"
    if submitted is None:
        return {}
    if not isinstance(submitted, dict):
        faults.add((field,), "bad_type", f"{field} must be an object of values by name")
        return {}
    if len(submitted) > MAX_VARIABLES:
        faults.add((field,), "out_of_range", f"{field} has more than {MAX_VARIABLES} names")
    for name in submitted:
        if not ADDITIONAL_NAME.fullmatch(name):
            rule = f'"{name[:64]}" is no name of a variable: use a to z, 0 to 9 and _'
            faults.add((field, name), "bad_variable", rule)
    return submitted


def _read_text(submitted: Any, faults: FaultList) -> str:
    if submitted is None:
        return ""
    if isinstance(submitted, str):
        return faults.take_text(submitted, ("input",), MAX_TEXT_CHARACTERS)
    if not isinstance(submitted, dict):
        faults.add(("input",), "bad_type", 'input must be a text or {"text": "..."}')
        return ""
    text = faults.take_object(submitted, ("input",), ("text",)).get("text")
    return "" if text is None else faults.take_text(text, ("input", "text"), MAX_TEXT_CHARACTERS)
