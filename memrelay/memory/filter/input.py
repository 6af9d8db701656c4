"""The pydantic type `Filter` for operations and blocks: checked on input, with its JSON schema.

The value stays JSON. The store compiles it when a query uses it.
"""

from typing import Annotated, Any

from pydantic import AfterValidator, WithJsonSchema

from memrelay.memory.filter.fields import (
    FIELDS,
    MAX_CONTAINED,
    MOST_DEPTH,
    MOST_LISTED,
    MOST_PIECES,
    NULLABLE,
    OPERATORS_BY_TYPE,
    FieldType,
)
from memrelay.memory.filter.parser import parse_filter

Json = dict[str, Any]
_NESTED: Json = {"type": "object", "description": "A nested filter."}
_TYPES: dict[FieldType, list[str]] = {
    "text": ["string"],
    "number": ["number"],
    "time": ["string", "number"],
    "flag": ["boolean"],
    "tags": ["string"],
    "data": ["string", "number", "boolean", "null"],
}


def _checked(given: Json) -> Json:
    parse_filter(given)
    return given


def _operators(type_: FieldType, *, nullable: bool) -> Json:
    """Return the schema of the object below fields of this type. `nullable` fields accept null."""
    one = {"type": list(dict.fromkeys([*_TYPES[type_], *(["null"] if nullable else [])]))}
    ordered = {"type": [name for name in _TYPES[type_] if name in ("string", "number")]}
    several = {"type": "array", "items": one, "maxItems": MOST_LISTED}
    contained = {"type": _TYPES[type_], "maxLength": MAX_CONTAINED}
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
        "properties": {name: known[name] for name in OPERATORS_BY_TYPE[type_]},
    }


def _schema() -> Json:
    """Return the schema of one level of the language. Fields of one type share a pattern. Nested
    filters are plain objects.
    """
    names: dict[tuple[FieldType, bool], list[str]] = {}
    for name, type_ in FIELDS.items():
        names.setdefault((type_, name in NULLABLE), []).append(
            name if type_ != "data" else rf"{name}(\..+)?"
        )
    groups = {
        "and": {"type": "array", "items": _NESTED},
        "or": {"type": "array", "items": _NESTED},
        "not": _NESTED,
    }
    return {
        "type": "object",
        "additionalProperties": False,
        "maxProperties": MOST_PIECES,
        "properties": groups,
        "patternProperties": {
            f"^({'|'.join(alike)})$": _operators(type_, nullable=nullable)
            for (type_, nullable), alike in names.items()
        },
        "examples": [
            {"kind": {"in": ["note", "fact"]}, "data.price": {"gte": 3, "lt": 10}},
            {"or": [{"tags": {"contains": "urgent"}}, {"not": {"owner": {"exists": True}}}]},
        ],
        "$comment": f"at most {MOST_PIECES} pieces, groups {MOST_DEPTH} deep",
    }


Filter = Annotated[Json, AfterValidator(_checked), WithJsonSchema(_schema())]
