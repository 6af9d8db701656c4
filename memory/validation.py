"""Everything that is wrong with a value, by place, as pydantic tells it: faces make their JSON
pointers of that."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError

MOST = 20  # told at once
Place = tuple[str | int, ...]


class Faults:
    """Gathered while a value is checked."""

    def __init__(self) -> None:
        """None."""
        self._found: list[InitErrorDetails] = []

    def add(self, place: Place, rule: str, value: Any) -> None:
        """`rule` says what holds, and the remedy."""
        if len(self._found) < MOST:
            kind = PydanticCustomError("refused", "{rule}", {"rule": rule})
            self._found.append(InitErrorDetails(type=kind, loc=place, input=value))

    def raise_any(self, title: str) -> None:
        """Raises ValidationError where anything was found; inside a validator its places are put
        behind the field's own."""
        if self._found:
            raise ValidationError.from_exception_data(title, self._found)

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._found)


# Did-you-mean: the known word that a misspelt one comes closest to.

LIKELY = 0.6
LONGEST = 128  # characters; nothing longer is a name


def closest(word: str, known: Iterable[str], ratio: float = LIKELY) -> str:
    """The known word that is most like `word`, whatever its case; "" where none is as near as
    `ratio`."""
    if len(word) > LONGEST:
        return ""
    by_lower = {name.lower(): name for name in known}
    found = get_close_matches(word.lower(), by_lower, 1, ratio)
    return by_lower[found[0]] if found else ""
