"""Queries over pairs and events: conditions, order, selected fields, pages, and JSON values.

Comparisons follow docs/filters.md: nothing is converted, and a negative operator is the exact
opposite of its positive one. Every value is a bound parameter.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import orjson
from pydantic import Field

from memrelay.memory.engine.filter_sql import Clause, SqlField, compare, json_path, negate
from memrelay.memory.errors import Fault, RecordDamaged, ResultTooLarge
from memrelay.memory.field_descriptions import nested_input
from memrelay.memory.models.recipes.faults import FaultList, quoted, refusal, suggest
from memrelay.memory.models.shared_stores.item import encode
from memrelay.memory.records.data import LARGEST
from memrelay.memory.records.filters import BadValue, convert_value, parse_path

MAX_FIELD_CHARACTERS = 1024
# Values in one list.
MOST_LISTED = 1000
OPERATORS = (
    *("eq", "neq", "gt", "gte", "lt", "lte", "contains", "startsWith", "endsWith"),
    *("in", "nin", "between", "like", "exists"),
)
# In lower case.
ALIASES = {
    "=": "eq",
    "==": "eq",
    "!=": "neq",
    "<>": "neq",
    "ne": "neq",
    ">": "gt",
    ">=": "gte",
    "<": "lt",
    "<=": "lte",
    "starts_with": "startsWith",
    "starts with": "startsWith",
    "startswith": "startsWith",
    "ends_with": "endsWith",
    "ends with": "endsWith",
    "endswith": "endsWith",
    "not in": "nin",
    "not_in": "nin",
    "is not null": "is not null",
    "is null": "is null",
}
OPPOSITES = {"neq": "eq", "nin": "in", "is not null": "is null"}
# GLOB counts case, LIKE does not.
GLOB_SIGNS = {"*": "[*]", "?": "[?]", "[": "[[]"}
LIKE_SIGNS = {**GLOB_SIGNS, "%": "*", "_": "?"}
PATTERNS = ("startsWith", "endsWith", "like")
FieldName = Annotated[str, Field(min_length=1, max_length=MAX_FIELD_CHARACTERS)]
Select = Annotated[tuple[FieldName, ...], Field(max_length=64)]
# Selects all fields.
EVERY = "*"
Offset = Annotated[int, Field(ge=0, le=LARGEST)]
# Returns the field with a name, None for an unknown one.
FindField = Callable[[str], SqlField | None]


@nested_input
@dataclass(frozen=True, slots=True)
class Where:
    """A condition on a field."""

    field: Annotated[str, Field(min_length=1, max_length=MAX_FIELD_CHARACTERS)]
    """The field. Keys of JSON follow after dots."""
    operator: Annotated[str, Field(min_length=1, max_length=20)] = "eq"
    """How to compare: eq, neq, gt, gte, lt, lte, contains, startsWith, endsWith, in, nin, between,
    like or exists, or a common alias such as `>=`."""
    value: Any = None
    """The value to compare with: a list for in and nin, the two limits for between."""


def compile_where(conditions: Sequence[Where], find: FindField, known: Sequence[str]) -> Clause:
    """Return the SQL condition that all conditions hold, "1" for none.

    `known` are names of fields for messages. Raises InvalidInput, with every error.
    """
    clauses, values, faults = list[str](), list[Any](), FaultList()
    for at, condition in enumerate(conditions):
        field, operator = find(condition.field), find_operator(condition.operator)
        if field is None:
            message = _describe_unknown("field", condition.field, known)
            faults.add(("where", at, "field"), "bad_enum", message)
        elif operator is None:
            message = _describe_unknown("operator", condition.operator, OPERATORS)
            faults.add(("where", at, "operator"), "bad_enum", message)
        else:
            try:
                sql, bound = compile_condition(field, operator, condition.value)
            except BadValue as error:
                message = f"{condition.field} {condition.operator}: the value {error}"
                faults.add(("where", at, "value"), "bad_type", message)
                continue
            clauses.append(sql)
            values += bound
    faults.raise_any("the request")
    return " AND ".join(clauses) or "1", tuple(values)


def require_field(name: str, path: str, find: FindField, known: Sequence[str]) -> SqlField:
    """Return the field of a name. Raises InvalidInput if there is none. `path` is its pointer."""
    if (field := find(name)) is None:
        fault = Fault(path, "bad_enum", _describe_unknown("field", name, known))
        raise refusal("the request", [fault])
    return field


def _describe_unknown(noun: str, name: str, known: Sequence[str]) -> str:
    return f"unknown {noun} {quoted(name)}{suggest(name, known)}"


def json_field(column: str, dotted: str) -> SqlField | None:
    """Return the field at the keys `a.b` within a column of JSON, None if they are malformed."""
    keys = parse_path(f"data.{dotted}")
    return None if keys is None else SqlField(column, "data", json_path(keys))


def find_operator(word: str) -> str | None:
    """Return the one name of an operator with aliases, None if it is unknown."""
    if word in OPERATORS:
        return word
    lower = " ".join(word.lower().split())
    return lower if lower in OPERATORS else ALIASES.get(lower)


def compile_condition(field: SqlField, operator: str, value: Any) -> Clause:
    """Return the SQL of one condition, with an operator as `find_operator` returns it.

    Raises BadValue, whose message continues "the value".
    """
    if operator == "exists":
        if not isinstance(value, bool | None):
            raise BadValue("must be true or false")
        clause = compare(field, "exists", True)
        return negate(clause) if value is False else clause
    positive = OPPOSITES.get(operator, operator)
    clause = _compile_positive(field, positive, value)
    return clause if positive == operator else negate(clause)


def _compile_positive(field: SqlField, operator: str, value: Any) -> Clause:
    if operator == "is null":
        return compare(field, "eq", None)
    if operator == "between":
        if not isinstance(value, list | tuple) or len(value) != 2:
            raise BadValue("must be a list of two limits, the lower one first")
        low = compare(field, "gte", _convert(field, "gte", value[0]))
        high = compare(field, "lte", _convert(field, "lte", value[1]))
        return f"({low[0]} AND {high[0]})", (*low[1], *high[1])
    if operator == "in":
        if not isinstance(value, list | tuple) or len(value) > MOST_LISTED:
            raise BadValue(f"must be a list of at most {MOST_LISTED} values")
        return compare(field, "in", tuple(_convert(field, "eq", one) for one in value))
    if operator in PATTERNS:
        return compare(field, "glob", _make_pattern(field, operator, value))
    if operator == "contains" and field.type in ("number", "time"):
        raise BadValue(f"cannot be contained in a {field.type}; use eq, in, between, gt or lt")
    return compare(field, operator, _convert(field, operator, value))


def _convert(field: SqlField, operator: str, value: Any) -> Any:
    """Return the value as SQL compares it. Raises BadValue."""
    return convert_value(value, field.type, operator, nullable=True)


def _make_pattern(field: SqlField, operator: str, value: Any) -> str:
    """Return the GLOB pattern of a text that begins or ends with a text, or is like a pattern in
    which `%` is any text and `_` any character.
    """
    if not isinstance(value, str):
        raise BadValue("must be a text")
    if field.type in ("number", "time"):
        raise BadValue(f"cannot be compared with a {field.type}; use eq, in, between, gt or lt")
    text = _convert(field, "contains", value)
    if operator == "like":
        return "".join(LIKE_SIGNS.get(character, character) for character in text)
    literal = "".join(GLOB_SIGNS.get(character, character) for character in text)
    return f"{literal}*" if operator == "startsWith" else f"*{literal}"


@nested_input
@dataclass(frozen=True, slots=True)
class OrderBy:
    """The order of a result."""

    field: FieldName
    """The field to sort by. Objects without it come last."""
    direction: Literal["asc", "desc"] = "asc"
    """asc or desc."""


def pick_fields(source: dict[str, Any], fields: Sequence[str], aliases: Mapping[str, str]) -> Any:
    """Return only these fields of an object; all for none or `*`.

    A dotted field reads within an object. `aliases` are further names of fields. A missing field
    is left out.
    """
    if not fields or EVERY in fields:
        return source
    picked = dict[str, Any]()
    for field in fields:
        value: Any = source
        for key in aliases.get(field, field).split("."):
            if not isinstance(value, dict) or key not in value:
                break
            value = value[key]
        else:
            picked[field] = value
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


def find_total(count: int, limit: int, offset: int) -> int | None:
    """Return the number of all matches if the page shows it, None if it must be counted."""
    return offset + count if 0 < count < limit or (count == 0 and offset == 0 < limit) else None


def to_json(value: Any) -> str:
    """Return a value as it is stored. Raises BadValue and ValueTooLarge."""
    # In a list, a text is JSON too.
    text, _ = encode([value], "", in_context=True, encrypted=False)
    return text[1:-1]


def from_json(text: str, name: str) -> Any:
    """Return a stored value. Raises RecordDamaged."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise RecordDamaged(
            f"{name} is damaged: {error}; write it again, and run `memrelay scrub` to find more "
            "damage"
        ) from error
