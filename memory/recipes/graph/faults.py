"""Collects the faults of an input to a graph, so that the caller gets all of them at once."""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Annotated, NoReturn

from pydantic import Field

from memrelay.memory.errors import Fault, InvalidInput

MAX_FAULTS = 20
# The ids of templates and views.
ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
NewId = Annotated[str, Field(pattern=rf"{ID_PATTERN}|^$")]
MAX_NAME_CHARACTERS = 256
# One line of text: an id of a node or an edge, or a kind.
ONE_LINE = re.compile(r"[^\x00-\x1f\x7f]{1,128}")
NAME_RULE = "is a text of 1 to 128 characters without control characters"
SearchId = Annotated[str, Field(min_length=1, max_length=128)]
TemplateName = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARACTERS)]
Description = Annotated[str, Field(max_length=2048)]


class FaultList:
    """Faults with the JSON pointers of their places."""

    def __init__(self) -> None:
        self.found: list[Fault] = []

    def add(self, path: str, code: str, message: str) -> None:
        """Add a fault. Further ones than the first 20 are left out."""
        if len(self.found) < MAX_FAULTS:
            self.found.append(Fault(path, code, message))

    def check_name(self, path: str, value: object) -> bool:
        """Return whether a value is one line of text; add a fault otherwise."""
        is_valid = isinstance(value, str) and ONE_LINE.fullmatch(value) is not None
        if not is_valid:
            self.add(path, "bad_type" if not isinstance(value, str) else "bad_id", NAME_RULE)
        return is_valid

    def raise_any(self, what: str) -> None:
        """Raise InvalidInput if there are faults. `what` names the input: "the query"."""
        if self.found:
            count = len(self.found)
            faults = "1 error" if count == 1 else f"{count} errors"
            first = self.found[0]
            raise InvalidInput(
                f"{what} has {faults}; {first.path}: {first.message}", tuple(self.found)
            )


def refuse(path: str, code: str, message: str) -> NoReturn:
    """Raise InvalidInput with one fault."""
    raise InvalidInput(message, (Fault(path, code, message),))


def suggest(word: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown word: the closest known one, or all."""
    names = sorted(known)
    if found := get_close_matches(word[:128], names, 1):
        return f'(did you mean "{found[0]}"?)'
    return f"(known: {', '.join(names[:20])})" if names else "(none exists)"
