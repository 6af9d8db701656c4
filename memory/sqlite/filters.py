"""Which records may be found, as SQL: every condition holds before any limit counts."""

from typing import Any, NamedTuple, cast

import orjson
from msgspec import Struct

from memrelay.memory.filter.fields import FIELDS
from memrelay.memory.filter.parser import Condition, Every, Node, Not, Scalar, Some, read_filter

HAS_TAG = "EXISTS (SELECT 1 FROM json_each(r.tags) WHERE value = ?)"
TAG_FITS = "tags_match(r.tags, ?)"  # memory/sqlite/memories.py has the function

Clause = tuple[str, tuple[Any, ...]]  # a condition on `records AS r`, and the values in it
Filters = dict[str, str]  # column (kind, scope, source, guid) -> the value it must have


class Given(NamedTuple):
    """A filter, compiled, and as it was given."""

    sql: str
    values: tuple[Any, ...]
    told: dict[str, Any]


class Conditions(Struct, frozen=True):
    """What a record must be; all of it. A struct, for the reason that Message is one."""

    equal: Filters = {}
    kinds: tuple[str, ...] = ()  # one of them, where there are any
    scopes: tuple[str, ...] = ()  # one of them, where there are any
    tags: tuple[str, ...] = ()  # all of them
    after_ms: int | None = None  # created at this moment or later, Unix ms
    before_ms: int | None = None  # created before this moment, Unix ms
    globs: tuple[
        str, ...
    ] = ()  # one of them fits a tag, where there are any (memory/sqlite/memories.py)
    given: Given | None = None  # a filter (docs/filters.md), compiled

    def clauses(self) -> tuple[list[str], list[Any]]:
        """SQL over the table of records as `r`, and the values in it. Names in it are our own,
        never a user's."""
        clauses = [f"r.{name} = ?" for name in self.equal]
        values: list[Any] = [*self.equal.values()]
        for name, wanted in (("kind", self.kinds), ("scope", self.scopes)):
            if wanted:
                clauses.append(f"r.{name} IN ({', '.join('?' * len(wanted))})")
                values += wanted
        clauses += [HAS_TAG] * len(self.tags)
        values += self.tags
        if self.globs:
            clauses.append(TAG_FITS)
            values.append(orjson.dumps(self.globs).decode())
        for clause, moment in (
            ("r.created_at >= ?", self.after_ms),
            ("r.created_at < ?", self.before_ms),
        ):
            if moment is not None:
                clauses.append(clause)
                values.append(moment)
        if self.given is not None:
            clauses.append(self.given.sql)
            values += self.given.values
        return clauses, values


def where(*clauses: str) -> str:
    """The WHERE clause, "" where there is nothing to hold."""
    return " WHERE " + " AND ".join(clauses) if clauses else ""


# A filter as SQL over `records AS r`. Whatever its writer gave is a parameter; names and operators
# are our own.
#
# A condition that is NULL does not hold; under NOT it is made 0, so that NOT is the opposite. `data`
# is read by SQLite's JSON
# functions, and each comparison asks for the type first: to them a list is a text, and true is 1.

COMPARISONS = {"eq": "=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
TYPE, EXTRACTED, ELEMENTS = (
    "json_type(r.data, ?)",
    "json_extract(r.data, ?)",
    "json_each(r.data, ?)",
)
TEXTS, NUMBERS = "= 'text'", "IN ('integer', 'real')"
NEVER, ALWAYS = "0", "1"


def compiled(given: dict[str, Any] | None) -> Given | None:
    """Of a filter as it is given; None for none. Raises ValidationError for one that was not
    checked and is wrong."""
    return Given(*_clause(read_filter(given)), given) if given else None


def _clause(node: Node) -> Clause:
    match node:
        case Every(parts):
            return _joined(" AND ", parts, ALWAYS)
        case Some(parts):
            return _joined(" OR ", parts, NEVER)
        case Not(part):
            sql, values = _clause(part)
            return f"(NOT coalesce({sql}, 0))", values
        case Condition("data"):
            return _of_data(node)
    return _of_column(node)


def _joined(word: str, parts: tuple[Node, ...], empty: str) -> Clause:
    clauses = [_clause(part) for part in parts]
    return f"({word.join(sql for sql, _ in clauses) or empty})", tuple(
        value for _, values in clauses for value in values
    )


def _of_column(node: Condition) -> Clause:
    column, value = f"r.{node.field}", cast(Any, node.value)
    match node.operator:
        case "eq":
            return (
                (f"({column} = ?)", (value,)) if value is not None else (f"({column} IS NULL)", ())
            )
        case "in":
            clauses = [f"({column} IS NULL)"] * (None in value)
            given = [one for one in value if one is not None]
            clauses += [f"{column} IN ({_marks(given)})"] * bool(given)
            return f"({' OR '.join(clauses) or NEVER})", tuple(given)
        case "exists":
            return f"({column} IS NOT NULL)", ()
        case "contains":
            return (HAS_TAG if FIELDS[node.field] == "tags" else f"(instr({column}, ?) > 0)"), (
                value,
            )
    return f"({column} {COMPARISONS[node.operator]} ?)", (value,)


def _of_data(node: Condition) -> Clause:
    path, value = (
        "$" + "".join(f".{orjson.dumps(step).decode()}" for step in node.path),
        cast(Any, node.value),
    )
    match node.operator:
        case "in":
            return _among(path, value)
        case "exists":
            return f"({TYPE} IS NOT NULL)", (path,)
        case "contains":
            return _containing(path, value)
        case "eq" if value is None or isinstance(value, bool):
            return _among(path, (value,))
    sort = TEXTS if isinstance(value, str) else NUMBERS
    return f"({TYPE} {sort} AND {EXTRACTED} {COMPARISONS[node.operator]} ?)", (path, path, value)


def _among(path: str, wanted: tuple[Scalar, ...]) -> Clause:
    """Whether what lies at the path is one of these; what is not there is null."""
    named = [
        _named(one)
        for one in dict.fromkeys(one for one in wanted if one is None or isinstance(one, bool))
    ]
    clauses, values = (
        [f"coalesce({TYPE}, 'null') = ?"] * len(named),
        [value for name in named for value in (path, name)],
    )
    for sort, given in ((TEXTS, _texts(wanted)), (NUMBERS, _numbers(wanted))):
        if given:
            clauses.append(f"({TYPE} {sort} AND {EXTRACTED} IN ({_marks(given)}))")
            values += [path, path, *given]
    return f"({' OR '.join(clauses) or NEVER})", tuple(values)


def _containing(path: str, value: Scalar) -> Clause:
    """A text that has this within, or a list that has it as an element."""
    if value is None or isinstance(value, bool):
        wanted, sought = "type = ?", cast(Scalar, _named(value))
    else:
        wanted, sought = f"type {TEXTS if isinstance(value, str) else NUMBERS} AND value = ?", value
    within = f"WHEN 'text' THEN instr({EXTRACTED}, ?) > 0 " * isinstance(value, str)
    element = f"WHEN 'array' THEN EXISTS (SELECT 1 FROM {ELEMENTS} WHERE {wanted})"
    return f"(CASE {TYPE} {within}{element} ELSE 0 END)", (
        path,
        *(path, sought) * (1 + isinstance(value, str)),
    )


def _named(value: bool | None) -> str:
    return {None: "null", True: "true", False: "false"}[value]


def _texts(wanted: tuple[Scalar, ...]) -> list[str]:
    return [one for one in wanted if isinstance(one, str)]


def _numbers(wanted: tuple[Scalar, ...]) -> list[int | float]:
    return [one for one in wanted if isinstance(one, int | float) and not isinstance(one, bool)]


def _marks(values: list[Any]) -> str:
    return ", ".join("?" * len(values))
