"""A filter as operations and blocks take it: an object that is checked where it comes in, and
compiled where it is used."""

from typing import Annotated, Any

from pydantic import AfterValidator, WithJsonSchema

from memrelay.memory.filter.fields import FIELDS, TAKES, Sort
from memrelay.memory.filter.parser import (
    MOST_CONTAINED,
    MOST_DEPTH,
    MOST_LISTED,
    MOST_PIECES,
    NULLABLE,
    read_filter,
)

Json = dict[str, Any]
_INNER: Json = {"type": "object", "description": "A filter again."}
_TYPES: dict[Sort, list[str]] = {
    "text": ["string"],
    "number": ["number"],
    "time": ["string", "number"],
    "flag": ["boolean"],
    "tags": ["string"],
    "data": ["string", "number", "boolean", "null"],
}


def _checked(given: Json) -> Json:
    read_filter(given)
    return given


def _operators(sort: Sort, *, nullable: bool) -> Json:
    """What stands below a field of this sort, which may be missing where it is `nullable`."""
    one = {"type": list(dict.fromkeys([*_TYPES[sort], *(["null"] if nullable else [])]))}
    ordered = {"type": [name for name in _TYPES[sort] if name in ("string", "number")]}
    several = {"type": "array", "items": one, "maxItems": MOST_LISTED}
    contained = {"type": _TYPES[sort], "maxLength": MOST_CONTAINED}
    known = {
        "eq": one,
        "ne": one,
        "gt": ordered,
        "gte": ordered,
        "lt": ordered,
        "lte": ordered,
        "in": several,
        "nin": several,
        "contains": contained,
        "exists": {"type": "boolean"},
    }
    return {
        "type": "object",
        "minProperties": 1,
        "additionalProperties": False,
        "properties": {name: known[name] for name in TAKES[sort]},
    }


def _schema() -> Json:
    """One level of the language, the fields of a sort together; what is further in is an object."""
    names: dict[tuple[Sort, bool], list[str]] = {}
    for name, sort in FIELDS.items():
        names.setdefault((sort, name in NULLABLE), []).append(
            name if sort != "data" else rf"{name}(\..+)?"
        )
    groups = {
        "and": {"type": "array", "items": _INNER},
        "or": {"type": "array", "items": _INNER},
        "not": _INNER,
    }
    return {
        "type": "object",
        "additionalProperties": False,
        "maxProperties": MOST_PIECES,
        "properties": groups,
        "patternProperties": {
            f"^({'|'.join(alike)})$": _operators(sort, nullable=nullable)
            for (sort, nullable), alike in names.items()
        },
        "examples": [
            {"kind": {"in": ["note", "fact"]}, "data.price": {"gte": 3, "lt": 10}},
            {"or": [{"tags": {"contains": "urgent"}}, {"not": {"owner": {"exists": True}}}]},
        ],
        "$comment": f"at most {MOST_PIECES} pieces, groups {MOST_DEPTH} deep",
    }


Filter = Annotated[Json, AfterValidator(_checked), WithJsonSchema(_schema())]
