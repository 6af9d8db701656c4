"""Replace `${name}` in the parameters of a step."""

import re
from collections.abc import Callable
from typing import Any

import orjson

from memrelay.memory.models.recipes.execution.values import MISSING

# `$${` stands for `${`. A name has no braces.
TOKEN = re.compile(r"\$\$\{|\$\{([^{}]*)\}")
# Parameters in which nothing is replaced.
LITERAL_PARAMS = frozenset(
    ("type", "step", "alias", "source", "sources", "condition", "handler", "onError")
)

# Returns the value of a name, MISSING if it has none.
Resolve = Callable[[str], Any]


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


def _names_in(value: Any) -> list[str]:
    if isinstance(value, str):
        return [found[1].strip() for found in TOKEN.finditer(value) if found[1] is not None]
    if isinstance(value, dict):
        value = list(value.values())
    return [name for one in value for name in _names_in(one)] if isinstance(value, list) else []


def _substitute_text(text: str, resolve: Resolve) -> Any:
    whole = TOKEN.fullmatch(text)
    if whole is not None and whole[1] is not None:
        value = resolve(whole[1].strip())
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
