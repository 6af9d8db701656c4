"""Collect validation errors by place, as pydantic reports them. Faces turn the places into JSON
pointers.
"""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError

# Maximum number of errors reported at once.
MAX_FAULTS = 20
Place = tuple[str | int, ...]


# More digits exceed every position and count, and int() refuses more than 4,300.
MAX_DIGITS = 18


def parse_number(text: str, default: int, max_digits: int = MAX_DIGITS) -> int:
    """Return a number of ASCII digits, or the default for any other text."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= max_digits
    return int(text) if is_number else default


class Faults:
    """Errors collected while a value is checked."""

    def __init__(self) -> None:
        self._found: list[InitErrorDetails] = []

    def add(self, place: Place, rule: str, value: Any) -> None:
        """Record an error. `rule` states the valid values and the remedy."""
        if len(self._found) < MAX_FAULTS:
            kind = PydanticCustomError("refused", "{rule}", {"rule": rule})
            self._found.append(InitErrorDetails(type=kind, loc=place, input=value))

    def add_unknown_keys(self, value: Mapping[str, Any], known: Sequence[str], at: Place) -> None:
        """Record the keys of an object that are not known, with the closest known one."""
        for key in value:
            if key in known:
                continue
            name = str(key)[:100]
            near = find_closest(str(key), known)
            hint = f"did you mean {near!r}?" if near else f"known: {', '.join(known)}"
            self.add((*at, name), f"unknown key {name!r} ({hint})", None)
            if len(value) > len(known):
                return

    def add_all(self, error: ValidationError, at: Place) -> None:
        """Record the errors of a part of the value, which is at a place."""
        for one in error.errors(include_url=False):
            self.add((*at, *one["loc"]), one["msg"], None)

    def raise_any(self, title: str) -> None:
        """Raise ValidationError if there are errors.

        Inside a pydantic validator, the places are appended to the place of the field.
        """
        if self._found:
            raise ValidationError.from_exception_data(title, self._found)

    def __bool__(self) -> bool:
        return bool(self._found)


# Suggestions for misspelled words.

LIKELY = 0.6
# No valid name is longer.
MAX_WORD_CHARACTERS = 128


def pointer(place: Place) -> str:
    """Return a place as a JSON pointer: `/retrieval/pipeline/0`."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in place)


def find_closest(word: str, known: Iterable[str], ratio: float = LIKELY) -> str:
    """Return the known word most similar to `word`, ignoring case.

    Returns "" if no word reaches the similarity `ratio`, 0 to 1.
    """
    if len(word) > MAX_WORD_CHARACTERS:
        return ""
    by_lower = {name.lower(): name for name in known}
    found = get_close_matches(word.lower(), by_lower, 1, ratio)
    return by_lower[found[0]] if found else ""
