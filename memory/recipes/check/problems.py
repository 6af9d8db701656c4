"""Collect the errors and warnings of a definition, with JSON pointers."""

from collections.abc import Iterable

from memrelay.memory.errors import Fault
from memrelay.memory.validation import Place, find_closest

# More errors, or more warnings, are left out.
MAX_PROBLEMS = 100
# Texts in messages are cut to this many characters.
SHOWN_CHARACTERS = 64


class Problems:
    """The errors and warnings found so far."""

    def __init__(self) -> None:
        self.errors: list[Fault] = []
        self.warnings: list[Fault] = []

    def error(self, place: Place, code: str, message: str) -> None:
        """Record an error. `code` is one of the 20 in docs/recipes.md."""
        if len(self.errors) < MAX_PROBLEMS:
            self.errors.append(Fault(pointer(place), code, message))

    def warn(self, place: Place, code: str, message: str) -> None:
        """Record a warning."""
        if len(self.warnings) < MAX_PROBLEMS:
            self.warnings.append(Fault(pointer(place), code, message))


def pointer(place: Place) -> str:
    """Return a place as a JSON pointer: `/retrieval/pipeline/0`."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in place)


def quoted(value: object) -> str:
    """Return a text in double quotes, cut to a readable length."""
    text = str(value)
    return f'"{text[:SHOWN_CHARACTERS]}…"' if len(text) > SHOWN_CHARACTERS else f'"{text}"'


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """Return ` (did you mean "…"?)`, or "" if no known word is close."""
    closest = find_closest(word, known) if isinstance(word, str) else ""
    return f' (did you mean "{closest}"?)' if closest else ""


def listed(words: Iterable[str]) -> str:
    """Return words as `a, b or c`."""
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last
