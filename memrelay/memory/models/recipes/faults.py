"""Collect the faults of an input, so that the caller gets all of them at once."""

from collections.abc import Iterable, Sequence

from memrelay.memory.errors import Fault, InvalidInput
from memrelay.memory.validation import Place, find_closest, pointer

# Further faults of an input are left out.
MAX_FAULTS = 100
# Texts in messages are cut to this many characters.
SHOWN_CHARACTERS = 64
# Known words that a message lists if none is close.
MOST_KNOWN = 20


class FaultList:
    """The faults of one input, with JSON pointers."""

    def __init__(self) -> None:
        self.found: list[Fault] = []

    def add(self, place: Place, code: str, message: str) -> None:
        """Add a fault. `code` is one of the codes in docs/recipes.md."""
        if len(self.found) < MAX_FAULTS:
            self.found.append(Fault(pointer(place), code, message))

    def raise_any(self, what: str) -> None:
        """Raise InvalidInput if there are faults. `what` names the input: "the query"."""
        if self.found:
            raise refusal(what, self.found)


class Problems:
    """The errors and warnings of a definition."""

    def __init__(self) -> None:
        self.errors, self.warnings = FaultList(), FaultList()
        self.error, self.warn = self.errors.add, self.warnings.add


def refusal(what: str, faults: Sequence[Fault]) -> InvalidInput:
    """Return the exception for an input with faults. `what` names the input: "the query"."""
    count = len(faults)
    return InvalidInput(f"{what} has {count} error{'s' * (count > 1)}", faults)


def quoted(value: object) -> str:
    """Return a text in double quotes, cut to a readable length."""
    text = str(value)
    return f'"{text[:SHOWN_CHARACTERS]}…"' if len(text) > SHOWN_CHARACTERS else f'"{text}"'


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """Return ` (did you mean "…"?)`, or "" if no known word is close."""
    closest = find_closest(word, known) if isinstance(word, str) else ""
    return f' (did you mean "{closest}"?)' if closest else ""


def suggest(word: object, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown word: the closest known one, or a list."""
    names = [*known]
    some = f" (known: {', '.join(names[:MOST_KNOWN])})" if names else " (none exists)"
    return did_you_mean(word, names) or some


def listed(words: Iterable[str]) -> str:
    """Return words as `a, b or c`."""
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last
