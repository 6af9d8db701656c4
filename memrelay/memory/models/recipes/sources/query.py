"""Shared parts of queries over sources: order, selected fields, pages, and the size of answers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import orjson
from pydantic import Field

from memrelay.memory.errors import ResultTooLarge
from memrelay.memory.models.recipes.sources.where import MAX_FIELD_CHARACTERS
from memrelay.memory.records.data import LARGEST

FieldName = Annotated[str, Field(min_length=1, max_length=MAX_FIELD_CHARACTERS)]
Select = Annotated[tuple[FieldName, ...], Field(max_length=64)]
# Selects all fields.
EVERY = "*"
Offset = Annotated[int, Field(ge=0, le=LARGEST)]


@dataclass(frozen=True, slots=True)
class OrderBy:
    """The order of a result."""

    field: FieldName
    """The field to sort by. Objects without it come last."""
    direction: Literal["asc", "desc"] = "asc"
    """asc or desc."""


def pick_fields(one: dict[str, Any], fields: Sequence[str], aliases: Mapping[str, str]) -> Any:
    """Return only these fields of an object; all for none or `*`.

    A dotted field reads within an object. `aliases` are further names of fields. A missing field
    is left out.
    """
    if not fields or EVERY in fields:
        return one
    picked = dict[str, Any]()
    for field in fields:
        found: Any = one
        for key in aliases.get(field, field).split("."):
            if not isinstance(found, dict) or key not in found:
                break
            found = found[key]
        else:
            picked[field] = found
    return picked


def take_within(objects: Iterator[dict[str, Any]], most_bytes: int) -> list[dict[str, Any]]:
    """Return all objects. Raises ResultTooLarge if they do not fit into an answer."""
    taken, size = list[dict[str, Any]](), 0
    for one in objects:
        size += len(orjson.dumps(one))
        if size > most_bytes:
            raise ResultTooLarge(
                f"the result has more than {most_bytes} bytes, too many for an answer; set a lower "
                "`limit`, or name the needed fields in `select`"
            )
        taken.append(one)
    return taken


def total_of(found: int, limit: int, offset: int) -> int | None:
    """Return the number of all matches if the page shows it, None if it must be counted."""
    return offset + found if 0 < found < limit or (found == 0 and offset == 0 < limit) else None
