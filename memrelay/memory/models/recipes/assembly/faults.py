"""Check JSON input and collect all its faults, each with a JSON pointer."""

from collections.abc import Collection
from typing import Any

from memrelay.memory.models.recipes.faults import FaultList, quoted, suggest
from memrelay.memory.records.data import text_fault
from memrelay.memory.validation import Place


class InputFaults(FaultList):
    """The faults of one input. The methods return a usable value even after a fault."""

    def take_object(self, value: Any, place: Place, known: Collection[str]) -> dict[str, Any]:
        """Return an object with known keys only, {} for another value."""
        if not isinstance(value, dict):
            self.add(place, "bad_type", f"{_name(place)} must be an object")
            return {}
        for key in value:
            if key not in known:
                self.add(
                    (*place, key),
                    "unknown_param",
                    f"unknown key {quoted(key)}{suggest(key, known)}",
                )
        return value

    def take_list(self, value: Any, place: Place, most: int) -> list[Any]:
        """Return a list of at most `most` values, [] for another value."""
        if not isinstance(value, list | tuple):
            self.add(place, "bad_type", f"{_name(place)} must be a list")
            return []
        if len(value) > most:
            self.add(place, "out_of_range", f"{_name(place)} has more than {most} elements")
        return list(value[:most])

    def take_text(self, value: Any, place: Place, most: int, *, needed: bool = False) -> str:
        """Return a text of at most `most` characters, "" for another value."""
        if needed and value in (None, ""):
            self.add(place, "required", f"{_name(place)} is missing")
            return ""
        if not isinstance(value, str) or text_fault(value):
            self.add(place, "bad_type", f"{_name(place)} must be a text")
            return ""
        if len(value) > most:
            self.add(place, "out_of_range", f"{_name(place)} has more than {most} characters")
        return value

    def take_integer(self, value: Any, place: Place, least: int, most: int) -> int:
        """Return an integer from `least` to `most`, `least` for another value."""
        if not isinstance(value, int) or isinstance(value, bool):
            self.add(place, "bad_type", f"{_name(place)} must be an integer")
        elif not least <= value <= most:
            self.add(place, "out_of_range", f"{_name(place)} must be from {least} to {most}")
        else:
            return value
        return least

    def take_boolean(self, value: Any, place: Place) -> bool:
        """Return true or false; false for another value."""
        if not isinstance(value, bool):
            self.add(place, "bad_type", f"{_name(place)} must be true or false")
        return value is True


def _name(place: Place) -> str:
    """Return the last name of a place, with positions in lists."""
    name = ""
    for part in place:
        name = f"{name}[{part}]" if isinstance(part, int) else str(part)
    return name or "the value"
