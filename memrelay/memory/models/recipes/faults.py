"""Collect the faults of an input, so that the caller gets all of them at once."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from memrelay.memory.errors import Fault, InvalidInput
from memrelay.memory.records.data import text_fault
from memrelay.memory.validation import Place, find_closest, pointer

# A further fault ends the check of an input.
MAX_FAULTS = 100
# Only the first faults or warnings suggest one of many names: a suggestion takes 5 ms next to 200
# similar names.
MOST_HINTS = 10
# Texts in messages are cut to this many characters.
SHOWN_CHARACTERS = 64
# Known words that a message lists if none is close.
MOST_KNOWN = 20


class FaultList:
    """The faults of one input, with JSON pointers.

    The methods `take_*` check a value of the input. They return a usable value even after a fault.
    """

    def __init__(self) -> None:
        self.found: list[Fault] = []

    def add(self, path: Place, code: str, message: str) -> None:
        """Add a fault. `code` is one of the codes in docs/recipes.md.

        Raises InvalidInput if the list is full, so that no check goes on for long.
        """
        if len(self.found) >= MAX_FAULTS:
            raise InvalidInput(
                f"there are more than {MAX_FAULTS} errors; correct these first", self.found
            )
        self.found.append(Fault(pointer(path), code, message))

    def suggest(self, word: object, known: Iterable[str]) -> str:
        """Return `suggest` for a fault with many known words, "" after many faults."""
        return suggest(word, known) if len(self.found) < MOST_HINTS else ""

    def raise_any(self, what: str) -> None:
        """Raise InvalidInput if there are faults. `what` names the input: "the query"."""
        if self.found:
            raise refusal(what, self.found)

    def raise_joined(self) -> None:
        """Raise InvalidInput, whose message has all rules, if there are faults."""
        if self.found:
            raise InvalidInput("; ".join(fault.message for fault in self.found), self.found)

    def take_object(
        self, value: Any, path: Place, known: Collection[str] | None = None
    ) -> dict[str, Any]:
        """Return an object, {} for another value. Keys that are not `known` are faults."""
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            self.add(path, "bad_type", f"{name_path(path)} must be an object")
            return {}
        for key in value:
            if known is not None and key not in known:
                message = f"unknown key {quoted(key)}{suggest(key, known)}"
                self.add((*path, key), "unknown_param", message)
        return value

    def take_list(self, value: Any, path: Place, most: int | None = None) -> list[Any]:
        """Return a list of at most `most` values, [] for another value."""
        if not isinstance(value, list | tuple):
            self.add(path, "bad_type", f"{name_path(path)} must be a list")
            return []
        if most is not None and len(value) > most:
            self.add(path, "out_of_range", f"{name_path(path)} has more than {most} elements")
        return list(value[:most])

    def take_text(
        self, value: Any, path: Place, most: int | None = None, *, needed: bool = False
    ) -> str:
        """Return a text of at most `most` characters, "" for another value."""
        if needed and value in (None, ""):
            self.add(path, "required", f"{name_path(path)} is missing")
            return ""
        if not isinstance(value, str) or text_fault(value):
            self.add(path, "bad_type", f"{name_path(path)} must be a text")
            return ""
        if most is not None and len(value) > most:
            self.add(path, "out_of_range", f"{name_path(path)} has more than {most} characters")
        return value

    def take_choice(self, value: Any, path: Place, known: Collection[str]) -> str:
        """Return one of the `known` texts, the first one for another value."""
        if not isinstance(value, str):
            self.add(path, "bad_type", f"{name_path(path)} must be a text")
        elif value not in known:
            rule = f"must be {listed(known)}, not {quoted(value)}{did_you_mean(value, known)}"
            self.add(path, "bad_enum", f"{name_path(path)} {rule}")
        else:
            return value
        return next(iter(known))

    def take_integer(self, value: Any, path: Place, least: int, most: int) -> int:
        """Return an integer from `least` to `most`, `least` for another value."""
        if not isinstance(value, int) or isinstance(value, bool):
            self.add(path, "bad_type", f"{name_path(path)} must be an integer")
        elif not least <= value <= most:
            self.add(path, "out_of_range", f"{name_path(path)} must be from {least} to {most}")
        else:
            return value
        return least

    def take_boolean(self, value: Any, path: Place) -> bool:
        """Return true or false; false for another value."""
        if not isinstance(value, bool):
            self.add(path, "bad_type", f"{name_path(path)} must be true or false")
        return value is True


class Problems:
    """The errors and the warnings of one input. Warnings beyond MAX_FAULTS are left out."""

    def __init__(self) -> None:
        self.errors = FaultList()
        self.warnings: list[Fault] = []
        self.error = self.errors.add

    @property
    def takes_warnings(self) -> bool:
        """Return whether a further warning is kept. If not, its message need not be computed."""
        return len(self.warnings) < MAX_FAULTS

    def hint(self, word: object, known: Iterable[str]) -> str:
        """Return `did_you_mean` for a warning, "" after many warnings."""
        return did_you_mean(word, known) if len(self.warnings) < MOST_HINTS else ""

    def warn(self, path: Place, code: str, message: str) -> None:
        if self.takes_warnings:
            self.warnings.append(Fault(pointer(path), code, message))

    def warn_unknown(self, fields: Iterable[str], path: Place, known: Collection[str]) -> None:
        for key in fields:
            if not self.takes_warnings:
                return
            if key not in known:
                message = f"unknown key {quoted(key)}{self.hint(key, known)}; it has no effect"
                self.warn((*path, key), "unknown_key", message)


def refusal(what: str, faults: Sequence[Fault]) -> InvalidInput:
    """Return the exception for an input with faults. `what` names the input: "the query"."""
    count = "1 error" if len(faults) == 1 else f"{len(faults)} errors"
    return InvalidInput(f"{what} has {count}", faults)


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


def name_path(path: Place) -> str:
    """Return the last name of a path, with positions in lists."""
    name = ""
    for part in path:
        name = f"{name}[{part}]" if isinstance(part, int) else str(part)
    return name or "the value"
