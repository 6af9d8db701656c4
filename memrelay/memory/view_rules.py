"""The shape of a declared view, in operations and in bundles: its records, and what it shows."""

import re
from typing import Annotated, Any, get_args

from pydantic import AfterValidator, Field, ValidationError, WithJsonSchema

from memrelay.memory.engine.models import load
from memrelay.memory.records.filters import FIELDS, Filter, parse_filter, parse_path
from memrelay.memory.validation import Faults, Place, find_closest

Json = dict[str, Any]
# In one bundle entry, and in one store besides those.
MOST_VIEWS = 20
KEYS = ("name", "match", "per", "show")
MATCH_KEYS = ("kind", "filter", "pattern")
NAME = re.compile(r"[^\x00-\x1f\x7f]{1,100}")
MAX_KIND_CHARACTERS = 256
# Fields with a text that may divide a view into parts, besides keys of `data`.
TEXT_FIELDS = ("key", "kind", "owner", "scope", "source", "thread")
PARTS = (*TEXT_FIELDS, "tags")
# Fields that may order a view, besides keys of `data`.
ORDERS = tuple(name for name, type_ in FIELDS.items() if type_ in ("time", "number"))
TOP_KEYS = ("by", "order")
SHOW_RULE = (
    'show is "count", {"latest": "key"} for the newest record of each key, or '
    '{"top": {"by": "created_at", "order": "desc"}}'
)
# Compiles a pattern. It is loaded with the first view that has one.
COMPILE_PATTERN = "memrelay.memory.models.views.selection:compile_pattern"


def check_view(value: Json) -> Json:
    """Return a view that is valid. Raises ValidationError with every error by place."""
    faults = Faults()
    faults.add_unknown_keys(value, KEYS, ())
    name = value.get("name")
    if not isinstance(name, str) or not NAME.fullmatch(name) or name != name.strip():
        rule = "a view needs a name of 1 to 100 characters on one line, without outer spaces"
        faults.add(("name",), rule, None)
    match = value.get("match", {})
    if isinstance(match, dict):
        _check_match(match, faults)
    else:
        rule = "match is an object with kind, filter and pattern; {} is every record"
        faults.add(("match",), rule, None)
    if "per" in value:
        _check_field(value["per"], PARTS, ("per",), faults)
    _check_show(value.get("show"), faults)
    faults.raise_any("view")
    return value


def _check_match(match: Json, faults: Faults) -> None:
    faults.add_unknown_keys(match, MATCH_KEYS, ("match",))
    kind = match.get("kind", "x")
    if not isinstance(kind, str) or not 1 <= len(kind) <= MAX_KIND_CHARACTERS:
        faults.add(("match", "kind"), "kind is the kind of the records, a text", None)
    if "filter" in match:
        try:
            parse_filter(match["filter"])
        except ValidationError as error:
            faults.add_all(error, ("match", "filter"))
    if "pattern" in match:
        try:
            load(COMPILE_PATTERN)(match["pattern"])
        except ValueError as error:
            faults.add(("match", "pattern"), str(error), None)


def _check_field(field: Any, known: tuple[str, ...], at: Place, faults: Faults) -> None:
    is_text = isinstance(field, str)
    if is_text and (field in known or (field != "data" and parse_path(field))):
        return
    near = find_closest(field, known) if is_text else ""
    hint = f" (did you mean {near!r}?)" if near else ""
    faults.add(at, f"a field is {', '.join(known)}, or a key of data like data.city{hint}", None)


def _check_show(show: Any, faults: Faults) -> None:
    if show == "count":
        return
    if isinstance(show, dict) and list(show) == ["latest"]:
        _check_field(show["latest"], TEXT_FIELDS, ("show", "latest"), faults)
    elif isinstance(show, dict) and list(show) == ["top"] and isinstance(show["top"], dict):
        top = show["top"]
        faults.add_unknown_keys(top, TOP_KEYS, ("show", "top"))
        _check_field(top.get("by", "created_at"), ORDERS, ("show", "top", "by"), faults)
        if top.get("order", "desc") not in ("asc", "desc"):
            faults.add(("show", "top", "order"), 'order is "asc" or "desc"', None)
    else:
        faults.add(("show",), SHOW_RULE, None)


_FILTER_SCHEMA = next(one for one in get_args(Filter) if isinstance(one, WithJsonSchema))
_FIELD: Json = {"type": "string", "minLength": 1}
_SCHEMA: Json = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name", "show"],
    "properties": {
        "name": {
            "type": "string",
            "minLength": 1,
            "maxLength": 100,
            "description": "The name of the view, unique in its store.",
        },
        "match": {
            "type": "object",
            "additionalProperties": False,
            "description": "The records of the view: all parts must hold; {} is every record.",
            "properties": {
                "kind": {"type": "string", "minLength": 1, "maxLength": MAX_KIND_CHARACTERS},
                "filter": _FILTER_SCHEMA.json_schema,
                "pattern": {
                    "type": "string",
                    "minLength": 1,
                    "description": "An RE2 pattern that the content has somewhere.",
                },
            },
        },
        "per": _FIELD
        | {
            "description": "The field that divides the view, such as `owner`: a part for each "
            "person. Records without the field are left out."
        },
        "show": {
            "description": "What a part shows.",
            "anyOf": [
                {"const": "count"},
                {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["latest"],
                    "properties": {
                        "latest": _FIELD
                        | {"description": "Show the newest record of each value of this field."}
                    },
                },
                {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["top"],
                    "properties": {
                        "top": {
                            "type": "object",
                            "additionalProperties": False,
                            "properties": {
                                "by": _FIELD | {"default": "created_at"},
                                "order": {"enum": ["asc", "desc"], "default": "desc"},
                            },
                        }
                    },
                },
            ],
        },
    },
}
View = Annotated[Json, AfterValidator(check_view), WithJsonSchema(_SCHEMA)]
Views = Annotated[tuple[View, ...], Field(max_length=MOST_VIEWS)]
