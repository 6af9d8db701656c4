"""The vocabulary of the filter language: fields, types, operators and limits."""

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import orjson
from pydantic import AfterValidator, WithJsonSchema

from memrelay.memory.engine.timestamps import parse_us
from memrelay.memory.records.data import NUL, number_fault, text_fault
from memrelay.memory.validation import Faults, Place, find_closest

FieldType = Literal["text", "number", "time", "flag", "tags", "data"]
# By the name of the column.
FIELDS: dict[str, FieldType] = {
    "guid": "text",
    "scope": "text",
    "kind": "text",
    "content": "text",
    "source": "text",
    "tags": "tags",
    "created_at": "time",
    "updated_at": "time",
    "key": "text",
    "owner": "text",
    "data": "data",
    "expires_at": "time",
    "in_context": "flag",
    "thread": "text",
    "seq": "number",
    "valid_from": "time",
    "valid_to": "time",
}
GROUPS = ("and", "or", "not")
OPERATORS = ("eq", "ne", "gt", "gte", "lt", "lte", "in", "nin", "contains", "exists")
ORDERED = ("gt", "gte", "lt", "lte")
LISTS = ("in", "nin")
NULLABLE = ("key", "owner", "expires_at", "thread", "seq", "valid_from", "valid_to", "data")
# A field, an operator, a group and each filter in a group counts as one piece. SQL has limits,
# and each piece costs time.
MOST_PIECES = 128
# Groups inside groups.
MOST_DEPTH = 8
# Values in all lists together.
MOST_LISTED = 1000
# Characters. Finding one text in another takes time proportional to the product of their lengths.
MAX_CONTAINED = 256
OPERATORS_BY_TYPE: dict[FieldType, tuple[str, ...]] = {
    "text": OPERATORS,
    "data": OPERATORS,
    "number": tuple(name for name in OPERATORS if name != "contains"),
    "time": tuple(name for name in OPERATORS if name != "contains"),
    "flag": tuple(name for name in OPERATORS if name not in (*ORDERED, "contains")),
    "tags": ("contains", "exists"),
}
MAX_STEPS = 16
MAX_PATH_CHARACTERS = 1024
_STEP = r'"(?:[^"\\]|\\.)*"|[^."]+'
_PATH = re.compile(rf"data(?:\.(?:{_STEP}))+", re.DOTALL)
_STEPS = re.compile(rf"\.({_STEP})", re.DOTALL)
Scalar = str | int | float | bool | None
EXPECTED: dict[FieldType, str] = {
    "text": "a text",
    "number": "a number",
    "time": "a time in RFC 3339, or Unix ms as a number",
    "flag": "true or false",
    "tags": "a text",
    "data": "a text, a number, true, false or null",
}
PATH_RULE = (
    f"write keys of data as data.key.key, at most {MAX_STEPS}; "
    'quote a key that has a dot or a quote, like data."a.b"'
)
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


# Paths: a field is a name, or `data` followed by keys after dots. Keys with a dot or a quote are
# quoted as in JSON.


def parse_path(field: str) -> tuple[str, ...] | None:
    """Return the keys after `data.`, None if the path is malformed."""
    if len(field) > MAX_PATH_CHARACTERS or not _PATH.fullmatch(field):
        return None
    try:
        steps = tuple(
            orjson.loads(step) if step[0] == '"' else step for step in _STEPS.findall(field)
        )
        "".join(steps).encode()
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return None
    return steps if len(steps) <= MAX_STEPS and NUL not in "".join(steps) else None


# The tree of conditions. Each condition is true or false for a record, never unknown.


@dataclass(frozen=True, slots=True)
class AllOf:
    """Holds if all parts hold, also without parts."""

    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Holds if at least one part holds, and never without parts."""

    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Not:
    """Holds if the part does not."""

    part: "Node"


@dataclass(frozen=True, slots=True)
class Condition:
    """One operator on one field.

    Times in `value` are Unix ms, with a fraction for finer times.
    """

    field: str
    # Keys below `data`.
    path: tuple[str, ...]
    # Never ne or nin: these are parsed as Not.
    operator: str
    # A tuple for `in`.
    value: Scalar | tuple[Scalar, ...]


Node = AllOf | AnyOf | Not | Condition


# Values, by the type of their field. Times become numbers.


class BadValue(Exception):
    """The value does not fit the operator and field. The message states valid values."""


def convert_value(value: Any, type_: FieldType, operator: str, *, nullable: bool) -> Any:
    """Return the value as it is compared. Raises BadValue."""
    if operator == "exists":
        if not isinstance(value, bool):
            raise BadValue("takes true or false")
        return value
    if operator in ORDERED:
        return _convert_ordered(value, type_, operator)
    if value is None and operator != "contains" and nullable:
        return None
    converted = _convert(value, type_)
    if operator == "contains" and isinstance(converted, str) and len(converted) > MAX_CONTAINED:
        raise BadValue(f"takes a text of at most {MAX_CONTAINED} characters")
    return converted


def _convert_ordered(value: Any, type_: FieldType, operator: str) -> Any:
    if type_ == "data" and (value is None or isinstance(value, bool)):
        raise BadValue(f"{operator} compares with a text or a number: nothing else has an order")
    return _convert(value, type_)


def _convert(value: Any, type_: FieldType) -> Any:
    """Return the value if it fits the type of the field. Raises BadValue."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if type_ == "flag" and isinstance(value, bool):
        return int(value)
    if type_ == "data" and (value is None or isinstance(value, bool)):
        return value
    if isinstance(value, str) and type_ in ("text", "tags", "data"):
        return _checked(value, text_fault(value))
    if is_number and type_ in ("number", "time", "data"):
        return _checked(value, number_fault(value))
    if isinstance(value, str) and type_ == "time" and (unix_us := parse_us(value)) is not None:
        return unix_us / 1000 if unix_us % 1000 else unix_us // 1000
    raise BadValue(f"must be {EXPECTED[type_]}")


def _checked(value: Any, rule: str) -> Any:
    if rule:
        raise BadValue(rule)
    return value


MATCH_ALL = AllOf(())


def parse_filter(value: Any) -> Node:
    """Return the tree of a filter. Raises ValidationError with every error by place."""
    parser = _Parser()
    node = parser.parse(value, (), 0)
    parser.faults.raise_any("filter")
    return node


class _Parser:
    """Parses one filter. `faults` collects its errors."""

    def __init__(self) -> None:
        self.faults = Faults()
        self._pieces = self._listed = 0

    def parse(self, filters: Any, place: Place, depth: int) -> Node:
        """Parse an object: all of its members must hold."""
        if not isinstance(filters, dict):
            return self._add_fault(place, 'a filter is an object, like {"kind": {"eq": "note"}}')
        if depth > MOST_DEPTH:
            return self._add_fault(place, f"and, or and not nest at most {MOST_DEPTH} deep")
        parts = []
        for name, value in filters.items():
            if not self._count_piece((*place, name)):
                break
            parse = self._parse_group if name in GROUPS else self._parse_field
            parts.append(parse(name, value, (*place, name), depth))
        return parts[0] if len(parts) == 1 else AllOf(tuple(parts))

    def _parse_group(self, name: str, value: Any, place: Place, depth: int) -> Node:
        if name == "not":
            return Not(self.parse(value, place, depth + 1))
        if not isinstance(value, list | tuple):
            return self._add_fault(place, f"{name} takes a list of filters")
        parts = []
        for at, one in enumerate(value):
            if not self._count_piece((*place, at)):
                break
            parts.append(self.parse(one, (*place, at), depth + 1))
        return AllOf(tuple(parts)) if name == "and" else AnyOf(tuple(parts))

    def _parse_field(self, name: str, value: Any, place: Place, depth: int) -> Node:
        path: tuple[str, ...] = ()
        if name not in FIELDS:
            if not isinstance(name, str) or not name.startswith("data."):
                return self._add_fault(place, _unknown_word("field", name, (*FIELDS, *GROUPS)))
            steps = parse_path(name)
            if steps is None:
                return self._add_fault(place, PATH_RULE)
            name, path = "data", steps
        if not isinstance(value, dict) or not value:
            return self._add_fault(place, 'takes an object of operators, like {"eq": "note"}')
        parts = [
            self._parse_operator(name, path, operator, operand, (*place, operator))
            for operator, operand in value.items()
            if self._count_piece((*place, operator))
        ]
        return parts[0] if len(parts) == 1 else AllOf(tuple(parts))

    def _parse_operator(
        self, field: str, path: tuple[str, ...], operator: str, value: Any, place: Place
    ) -> Node:
        type_ = FIELDS[field]
        if operator not in OPERATORS:
            return self._add_fault(
                place, _unknown_word("operator", operator, OPERATORS_BY_TYPE[type_])
            )
        if operator not in OPERATORS_BY_TYPE[type_]:
            return self._add_fault(
                place,
                f"{field} does not take {operator}; it takes {', '.join(OPERATORS_BY_TYPE[type_])}",
            )
        if operator in LISTS:
            operand = self._parse_list(field, type_, operator, value, place)
        else:
            operand = self._parse_value(field, type_, operator, value, place)
        if operator == "exists":
            return _negate_if(not operand, Condition(field, path, operator, True))
        positive = {"ne": "eq", "nin": "in"}.get(operator, operator)
        return _negate_if(positive != operator, Condition(field, path, positive, operand))

    def _parse_list(
        self, field: str, type_: FieldType, operator: str, values: Any, place: Place
    ) -> tuple[Any, ...]:
        if not isinstance(values, list | tuple):
            self.faults.add(place, f"{operator} takes a list of values", None)
            return ()
        self._listed += len(values)
        if self._listed > MOST_LISTED:
            self.faults.add(
                place, f"the lists of a filter have at most {MOST_LISTED} values together", None
            )
            return ()
        return tuple(
            self._parse_value(field, type_, operator, one, (*place, at))
            for at, one in enumerate(values)
        )

    def _parse_value(
        self, field: str, type_: FieldType, operator: str, value: Any, place: Place
    ) -> Any:
        try:
            return convert_value(value, type_, operator, nullable=field in NULLABLE)
        except BadValue as error:
            self.faults.add(place, str(error), None)
            return None

    def _count_piece(self, place: Place) -> bool:
        self._pieces += 1
        if self._pieces == MOST_PIECES + 1:
            self.faults.add(
                place,
                f"a filter has at most {MOST_PIECES} pieces: fields, operators, groups and their "
                "filters",
                None,
            )
        return self._pieces <= MOST_PIECES

    def _add_fault(self, place: Place, rule: str) -> Node:
        self.faults.add(place, rule, None)
        return MATCH_ALL


def _negate_if(negative: bool, condition: Condition) -> Node:
    return Not(condition) if negative else condition


def _unknown_word(noun: str, word: Any, known: tuple[str, ...]) -> str:
    """Return the rule for an unknown word, with a suggestion if one is similar."""
    name = str(word)[:100]
    near = find_closest(str(word), known)
    hint = f"did you mean {near!r}?" if near else f"known: {', '.join(known)}"
    return f"unknown {noun} {name!r} ({hint})"


def _checked_filter(value: Json) -> Json:
    parse_filter(value)
    return value


def _operators(type_: FieldType, *, nullable: bool) -> Json:
    """Return the schema of the object below fields of this type. `nullable` fields accept null."""
    one = {"type": list(dict.fromkeys([*_TYPES[type_], *(["null"] if nullable else [])]))}
    ordered = {"type": [name for name in _TYPES[type_] if name in ("string", "number")]}
    several = {"type": "array", "items": one, "maxItems": MOST_LISTED}
    contained = {"type": _TYPES[type_], "maxLength": MAX_CONTAINED}
    schemas = {
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
        "properties": {name: schemas[name] for name in OPERATORS_BY_TYPE[type_]},
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


Filter = Annotated[Json, AfterValidator(_checked_filter), WithJsonSchema(_schema())]
