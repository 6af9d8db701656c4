"""The conditions of queries over sources: `{field, operator, value}`, compiled to SQL.

Comparisons follow docs/filters.md: nothing is converted, and a negative operator is the exact
opposite of its positive one. Every value is a bound parameter.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import orjson
from pydantic import Field

from memrelay.memory.errors import Fault
from memrelay.memory.models.recipes.faults import FaultList, quoted, refusal, suggest
from memrelay.memory.records.filters import BadValue, convert_value, parse_path

FieldSort = Literal["text", "number", "time", "json"]
MAX_FIELD_CHARACTERS = 1024
# Values in one list.
MOST_LISTED = 1000

# By the name in the SQL of an ordered comparison.
ORDERED = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
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
IS_TEXT, IS_NUMBER = "= 'text'", "IN ('integer', 'real')"

# A condition in SQL, with its values.
Clause = tuple[str, tuple[Any, ...]]


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


class SqlField(NamedTuple):
    """A field in SQL. A field of sort `json` is a value within a column of JSON."""

    # An expression, or the column of JSON.
    sql: str
    sort: FieldSort
    # The JSON path, "" for other sorts. It is bound, never part of the SQL.
    path: str = ""

    @property
    def value_sql(self) -> str:
        """The SQL of the value, which has the values of `bound`."""
        return f"json_extract({self.sql}, ?)" if self.sort == "json" else self.sql

    @property
    def bound(self) -> tuple[Any, ...]:
        """The values of `value_sql`."""
        return (self.path,) if self.sort == "json" else ()


def json_field(column: str, dotted: str) -> SqlField | None:
    """Return the field at the keys `a.b` within a column of JSON, None if they are malformed."""
    keys = parse_path(f"data.{dotted}")
    return None if keys is None else SqlField(column, "json", json_path(keys))


def json_path(keys: Sequence[str]) -> str:
    """Return the path of SQLite to these keys."""
    return "$" + "".join(f".{orjson.dumps(key).decode()}" for key in keys)


def operator_name(operator: str) -> str | None:
    """Return the one name of an operator with aliases, None if it is unknown."""
    if operator in OPERATORS:
        return operator
    lower = " ".join(operator.lower().split())
    return lower if lower in OPERATORS else ALIASES.get(lower)


def compile_where(
    conditions: Sequence[Where], find: Callable[[str], SqlField | None], known: Sequence[str]
) -> Clause:
    """Return the SQL condition that all conditions hold, "1" for none.

    `find` returns the field of a name, None for an unknown one. `known` are names for the message.
    Raises InvalidInput, with every error.
    """
    clauses, values, faults = list[str](), list[Any](), FaultList()
    for at, one in enumerate(conditions):
        field = find(one.field)
        if field is None:
            faults.add(("where", at, "field"), *_unknown("field", one.field, known))
        elif (name := operator_name(one.operator)) is None:
            faults.add(("where", at, "operator"), *_unknown("operator", one.operator, OPERATORS))
        else:
            try:
                sql, bound = compile_condition(field, name, one.value)
            except BadValue as error:
                message = f"{one.field} {one.operator}: the value {error}"
                faults.add(("where", at, "value"), "bad_type", message)
                continue
            clauses.append(sql)
            values += bound
    faults.raise_any("the request")
    return " AND ".join(clauses) or "1", tuple(values)


def _unknown(noun: str, name: str, known: Sequence[str]) -> tuple[str, str]:
    return "bad_enum", f"unknown {noun} {quoted(name)}{suggest(name, known)}"


def compile_condition(field: SqlField, name: str, value: Any) -> Clause:
    """Return the SQL of one condition, which is 0 or 1 and never NULL. `name` is of
    `operator_name`. Raises BadValue, whose message continues "the value".
    """
    positive = OPPOSITES.get(name, name)
    if name == "exists":
        if not isinstance(value, bool | None):
            raise BadValue("must be true or false")
        return _maybe_not(_exists(field), negative=value is False)
    if positive == "is null":
        clause = _equals_any(field, [None])
    elif positive in ("eq", "in"):
        clause = _equals_any(field, _listed(field, positive, value))
    elif positive == "between":
        if not isinstance(value, list | tuple) or len(value) != 2:
            raise BadValue("must be a list of two limits, the lower one first")
        low, high = (
            _ordered(field, side, one) for side, one in zip(("gte", "lte"), value, strict=True)
        )
        clause = f"({low[0]} AND {high[0]})", (*low[1], *high[1])
    elif positive in ORDERED:
        clause = _ordered(field, positive, value)
    elif positive == "contains":
        clause = _contains(field, value)
    else:
        clause = _like(field, positive, value)
    return _maybe_not(clause, negative=positive != name)


def _maybe_not(clause: Clause, *, negative: bool) -> Clause:
    """Return the clause or its exact opposite. A NULL is false."""
    sql, values = clause
    return (f"(NOT coalesce({sql}, 0))", values) if negative else (f"({sql})", values)


def _exists(field: SqlField) -> Clause:
    if field.sort == "json":
        return f"json_type({field.sql}, ?) IS NOT NULL", (field.path,)
    return f"{field.sql} IS NOT NULL", ()


def _converted(field: SqlField, value: Any, operator: str) -> Any:
    """Return the value as SQL compares it. Raises BadValue."""
    if value is None and operator == "eq":
        return None
    type_: Any = "data" if field.sort == "json" else field.sort
    return convert_value(value, type_, operator, nullable=True)


def _listed(field: SqlField, operator: str, value: Any) -> list[Any]:
    if operator == "eq":
        return [_converted(field, value, "eq")]
    if not isinstance(value, list | tuple) or len(value) > MOST_LISTED:
        raise BadValue(f"must be a list of at most {MOST_LISTED} values")
    return [_converted(field, one, "eq") for one in value]


def _equals_any(field: SqlField, wanted: list[Any]) -> Clause:
    """Return the condition that the value equals one of these. A missing value is null."""
    clauses, values = list[str](), list[Any]()
    if field.sort != "json":
        given = [one for one in wanted if one is not None]
        clauses += [f"{field.sql} IS NULL"] * (None in wanted)
        clauses += [f"{field.sql} IN ({_marks(given)})"] * bool(given)
        return f"({' OR '.join(clauses) or '0'})", tuple(given)
    for one in wanted:
        if one is None or isinstance(one, bool):
            clauses.append(f"coalesce(json_type({field.sql}, ?), 'null') = ?")
            values += [field.path, _json_name(one)]
    texts = [one for one in wanted if isinstance(one, str)]
    numbers = [one for one in wanted if _is_number(one)]
    for is_type, listed in ((IS_TEXT, texts), (IS_NUMBER, numbers)):
        if listed:
            sql, bound = _typed(field, is_type, f"IN ({_marks(listed)})")
            clauses.append(sql)
            values += [*bound, *listed]
    return f"({' OR '.join(clauses) or '0'})", tuple(values)


def _ordered(field: SqlField, operator: str, value: Any) -> Clause:
    found = _converted(field, value, operator)
    sign = ORDERED[operator]
    if field.sort != "json":
        return f"{field.sql} {sign} ?", (found,)
    sql, bound = _typed(field, IS_TEXT if isinstance(found, str) else IS_NUMBER, f"{sign} ?")
    return sql, (*bound, found)


def _contains(field: SqlField, value: Any) -> Clause:
    """Return the condition that a text contains this text, or a list has an element equal to it."""
    if field.sort in ("number", "time"):
        raise BadValue(f"cannot be contained in a {field.sort}; use eq, in, between, gt or lt")
    found = _converted(field, value, "contains")
    if field.sort == "text":
        return f"instr({field.sql}, ?) > 0", (found,)
    type_sql, each = f"json_type({field.sql}, ?)", f"json_each({field.sql}, ?)"
    if found is None or isinstance(found, bool):
        wanted, sought = "type = ?", _json_name(found)
    else:
        is_type = IS_TEXT if isinstance(found, str) else IS_NUMBER
        wanted, sought = f"type {is_type} AND value = ?", found
    element = f"WHEN 'array' THEN EXISTS (SELECT 1 FROM {each} WHERE {wanted})"
    path = field.path
    if not isinstance(found, str):
        return f"CASE {type_sql} {element} ELSE 0 END", (path, path, sought)
    within = f"WHEN 'text' THEN instr(json_extract({field.sql}, ?), ?) > 0"
    sql = f"CASE {type_sql} {within} {element} ELSE 0 END"
    return sql, (path, path, sought, path, sought)


def _like(field: SqlField, operator: str, value: Any) -> Clause:
    """Return the condition that a text begins or ends with a text, or is like a pattern in which
    `%` is any text and `_` any character.
    """
    if not isinstance(value, str):
        raise BadValue("must be a text")
    if field.sort in ("number", "time"):
        raise BadValue(f"cannot be compared with a {field.sort}; use eq, in, between, gt or lt")
    found = _converted(field, value, "contains")
    if operator == "like":
        pattern = "".join(LIKE_SIGNS.get(one, one) for one in found)
    else:
        literal = "".join(GLOB_SIGNS.get(one, one) for one in found)
        pattern = f"{literal}*" if operator == "startsWith" else f"*{literal}"
    if field.sort == "text":
        return f"{field.sql} GLOB ?", (pattern,)
    sql, bound = _typed(field, IS_TEXT, "GLOB ?")
    return sql, (*bound, pattern)


def _typed(field: SqlField, is_type: str, comparison: str) -> Clause:
    """Return a comparison of JSON values of one type, without the values of the comparison."""
    sql = f"(json_type({field.sql}, ?) {is_type} AND json_extract({field.sql}, ?) {comparison})"
    return sql, (field.path, field.path)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _json_name(value: bool | None) -> str:
    return {None: "null", True: "true", False: "false"}[value]


def _marks(values: Sequence[Any]) -> str:
    return ", ".join("?" * len(values))


def require_field(
    name: str, path: str, find: Callable[[str], SqlField | None], known: Sequence[str]
) -> SqlField:
    """Return the field of a name. Raises InvalidInput if there is none. `path` is its pointer."""
    if (field := find(name)) is None:
        raise refusal("the request", [Fault(path, *_unknown("field", name, known))])
    return field
