"""Read the fields of a step in all accepted spellings: `step`, `params`, `config`, snake case."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from memrelay.memory.models.recipes.faults import Problems
from memrelay.memory.models.recipes.step import public_name
from memrelay.memory.validation import Place

NESTED = ("params", "config")


class Fields(NamedTuple):
    """The fields of a step by the seed's name, with the submitted place of each."""

    values: dict[str, Any]
    places: dict[str, Place]


def read_fields(step: dict[str, Any], place: Place, problems: Problems) -> Fields:
    """Return the fields of a step, and report two spellings with different values."""
    fields = Fields({}, {})
    for at, value in _spelled(step, place, problems):
        spelling = str(at[-1])
        name = "type" if spelling == "step" else public_name(spelling)
        if name not in fields.values:
            fields.values[name], fields.places[name] = value, at
        elif not _are_same(fields.values[name], value):
            first = "/".join(map(str, fields.places[name][len(place) :]))
            second = "/".join(map(str, at[len(place) :]))
            message = f'"{first}" and "{second}" have different values; keep one of them'
            problems.error(at, "conflicting_keys", message)
    return fields


def _spelled(step: dict[str, Any], place: Place, problems: Problems) -> Iterator[tuple[Place, Any]]:
    for key, value in step.items():
        if key not in NESTED:
            yield (*place, key), value
        elif isinstance(value, dict):
            yield from (((*place, key, name), one) for name, one in value.items())
        elif value is not None:
            problems.error((*place, key), "bad_param", f"{key} must be an object")


def _are_same(one: Any, other: Any) -> bool:
    """Return whether two JSON values are equal; `1` and `true` differ."""
    return type(one) is type(other) and bool(one == other)
