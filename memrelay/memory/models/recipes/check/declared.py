"""Check `additional_variables` of a definition: a list, or a map by name."""

import re
from typing import Any

from memrelay.memory.models.recipes.check.aliases import RESERVED
from memrelay.memory.models.recipes.faults import Problems, did_you_mean, quoted
from memrelay.memory.models.recipes.recipe import Variable
from memrelay.memory.models.recipes.scopes import SCOPE_OF
from memrelay.memory.validation import Place

NAME = re.compile(r"[a-z0-9_]+", re.ASCII)
# The keys of a variable and their types.
KEYS: dict[str, tuple[type, str]] = {
    "name": (str, "a text"),
    "description": (str, "a text"),
    "required": (bool, "true or false"),
    "type": (str, "a text"),
}
FIELD = "additional_variables"


def check_variables(
    given: Any, problems: Problems
) -> tuple[tuple[Variable, ...], list[dict[str, Any]] | None]:
    """Return the valid variables, and their stored list; None if none are declared."""
    if given is None:
        return (), None
    if not isinstance(given, list | dict):
        problems.error((FIELD,), "bad_type", f"{FIELD} must be a list, or an object by name")
        return (), None
    found, stored = dict[str, Variable](), list[dict[str, Any]]()
    for place, entry in _entries(given):
        if not isinstance(entry, dict):
            problems.error(place, "bad_type", "a variable must be an object")
            continue
        stored.append(entry)
        variable = _check(entry, place, found, problems)
        if variable is not None:
            found[variable.name] = variable
    return tuple(found.values()), stored


def _entries(given: list[Any] | dict[str, Any]) -> list[tuple[Place, Any]]:
    """Return each variable with its place. The name of a map's entry is its key."""
    if isinstance(given, list):
        return [((FIELD, at), entry) for at, entry in enumerate(given)]
    return [
        ((FIELD, name), {**entry, "name": name} if isinstance(entry, dict) else entry)
        for name, entry in given.items()
    ]


def _check(
    entry: dict[str, Any], place: Place, earlier: dict[str, Variable], problems: Problems
) -> Variable | None:
    for key, value in entry.items():
        if key in KEYS and value is not None and not isinstance(value, KEYS[key][0]):
            problems.error((*place, key), "bad_type", f"{key} must be {KEYS[key][1]}")
        elif key not in (*KEYS, "default"):
            message = f"unknown key {quoted(key)}{did_you_mean(key, (*KEYS, 'default'))}"
            problems.warn((*place, key), "unknown_key", f"{message}; it has no effect")
    name = entry.get("name")
    if name is not None and not isinstance(name, str):
        return None
    if (rule := _name_fault(name or "", earlier)) is not None:
        problems.error((*place, "name"), "bad_variable", rule)
        return None
    return Variable(str(name), entry.get("required") is True, entry.get("default"))


def _name_fault(name: str, earlier: dict[str, Variable]) -> str | None:
    if not NAME.fullmatch(name):
        return f"the name of a variable consists of a-z, 0-9 and _, not {quoted(name)}"
    if name in earlier:
        return f'variable "{name}" is declared twice'
    if name in RESERVED:
        return f'"{name}" is reserved; use another name'
    if name in SCOPE_OF:
        return f'"{name}" is a variable of the scope "{SCOPE_OF[name]}"; add it to inputs_scope'
    return None
