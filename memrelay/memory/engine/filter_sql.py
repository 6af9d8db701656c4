"""Conditions on records as SQL: filters and expiry. They apply before any limit."""

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple, cast

import apsw
import orjson
from msgspec import Struct

from memrelay.memory.records.filters import (
    FIELDS,
    AllOf,
    AnyOf,
    Condition,
    FieldType,
    Node,
    Not,
    Scalar,
    parse_filter,
)

HAS_TAG = "EXISTS (SELECT 1 FROM json_each(r.tags) WHERE value = ?)"
# memrelay/memory/models/named_memories/table.py registers the function.
TAG_MATCHES = "tags_match(r.tags, ?)"

# The comparisons are under NOT, so that SQLite selects no index by them.
NO_AGENT_MEMORY = "NOT (r.kind >= 'memory.' AND r.kind < 'memory/')"
HAS_AGENT_MEMORY = (
    "SELECT EXISTS (SELECT 1 FROM records WHERE kind >= 'memory.' AND kind < 'memory/')"
)
HAS_PERIODS = (
    "SELECT EXISTS (SELECT 1 FROM records WHERE valid_from IS NOT NULL OR valid_to IS NOT NULL)"
)
# Under NOT, so that SQLite selects no index by it.
IS_VALID = "NOT (coalesce(r.valid_from > ?, 0) OR coalesce(r.valid_to <= ?, 0))"
# Served by the index of periods alone.
NOT_VALID = (
    "SELECT row, guid FROM records WHERE (valid_from IS NOT NULL OR valid_to IS NOT NULL) "
    "AND (valid_from > ?1 OR valid_to <= ?1)"
)

# A condition on `records AS r`, with its values.
Clause = tuple[str, tuple[Any, ...]]
# Required value by column: kind, scope, source or guid.
Filters = dict[str, str]


class Given(NamedTuple):
    """A compiled filter, with its JSON."""

    sql: str
    values: tuple[Any, ...]
    told: dict[str, Any]


class Conditions(Struct, frozen=True):
    """Conditions that a record must meet, all of them.

    A Struct, for the same reason as Message.
    """

    equal: Filters = {}
    # Any of these kinds. Empty: every kind.
    kinds: tuple[str, ...] = ()
    # Any of these scopes. Empty: every scope.
    scopes: tuple[str, ...] = ()
    # All of these tags.
    tags: tuple[str, ...] = ()
    # Created at this time or later, Unix ms.
    after_ms: int | None = None
    # Created before this time, Unix ms.
    before_ms: int | None = None
    # Any of these globs matches a tag. Empty: no condition.
    globs: tuple[str, ...] = ()
    # A compiled filter (docs/filters.md).
    given: Given | None = None
    # Whether the memory of agents is left out (memrelay/memory/records/kinds.py).
    without_agents: bool = False
    # Valid at this time, Unix ms.
    valid_at_ms: int | None = None

    def clauses(self) -> tuple[list[str], list[Any]]:
        """Return (SQL conditions on `records AS r`, their values).

        The SQL has no text from users.
        """
        clauses = [f"r.{name} = ?" for name in self.equal]
        values: list[Any] = [*self.equal.values()]
        if self.kinds:
            clauses.append(f"r.kind IN ({', '.join('?' * len(self.kinds))})")
            values += self.kinds
        if self.scopes:
            clauses.append(f"r.scope IN ({', '.join('?' * len(self.scopes))})")
            values += self.scopes
        if self.tags:
            clauses += [HAS_TAG] * len(self.tags)
            values += self.tags
        if self.globs:
            clauses.append(TAG_MATCHES)
            values.append(orjson.dumps(self.globs).decode())
        if self.after_ms is not None:
            clauses.append("r.created_at >= ?")
            values.append(self.after_ms)
        if self.before_ms is not None:
            clauses.append("r.created_at < ?")
            values.append(self.before_ms)
        if self.given is not None:
            clauses.append(self.given.sql)
            values += self.given.values
        if self.without_agents:
            clauses.append(NO_AGENT_MEMORY)
        if self.valid_at_ms is not None:
            clauses.append(IS_VALID)
            values += [self.valid_at_ms] * 2
        return clauses, values


def where(*clauses: str) -> str:
    """Return the WHERE clause, "" without conditions."""
    return " WHERE " + " AND ".join(clauses) if clauses else ""


UNEXPIRED = "(r.expires_at IS NULL OR r.expires_at > ?)"
EXPIRED_FIRST = (
    "SELECT row, octet_length(content) FROM records WHERE expires_at <= ? "
    "ORDER BY expires_at LIMIT ?"
)
# Content of the records that are deleted at once. The full-text index takes 2 microseconds a word.
MAX_EXPIRED_BYTES = 128 << 10
AMONG = "r.row IN (SELECT value FROM json_each(?))"
NEXT_EXPIRY = (
    "SELECT expires_at FROM records WHERE expires_at IS NOT NULL ORDER BY expires_at LIMIT 1"
)


class Expiry:
    """The expiry of records in their table, which must have no buffered rows.

    Reads skip expired records, and the owner deletes them later. Reads pay for expiry only if a
    record can expire.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        # Whether a record can expire. `reset` reads it from the table.
        self.concerns = False

    def reset(self) -> None:
        """Read from the table whether a record can expire."""
        self.concerns = self.next_ms() is not None

    def clauses(self, conditions: Conditions, now_ms: int) -> tuple[list[str], list[Any]]:
        """Return (SQL conditions, their values), with a condition that excludes expired records."""
        clauses, values = conditions.clauses()
        return ([*clauses, UNEXPIRED], [*values, now_ms]) if self.concerns else (clauses, values)

    def rows(self, now_ms: int) -> list[int]:
        """Return the rows of records that have expired and are not deleted yet."""
        if not self.concerns:
            return []
        found = self._connection.execute("SELECT row FROM records WHERE expires_at <= ?", (now_ms,))
        return [row for (row,) in found]

    def earliest(self, now_ms: int, most: int) -> tuple[str, list[Any]]:
        """Return a WHERE clause on `records AS r` for up to `most` expired records, with its
        values. Records that expired first come first. Long records are fewer.
        """
        rows, size = list[int](), 0
        for row, content_bytes in self._connection.execute(EXPIRED_FIRST, (now_ms, most)):
            size += content_bytes
            if rows and size > MAX_EXPIRED_BYTES:
                break
            rows.append(row)
        return where(AMONG), [orjson.dumps(rows).decode()]

    def next_ms(self) -> int | None:
        """Return when the next record expires, Unix ms. None for never."""
        found: int | None = self._connection.execute(NEXT_EXPIRY).get
        return found


def has_expired(expires_at: int | None, now_ms: int) -> bool:
    """Return whether a record with that expiry, Unix ms, has expired."""
    return expires_at is not None and expires_at <= now_ms


# Conditions as SQL. Every value from their writer is a parameter. A NULL condition does not hold.
# Under NOT it becomes 0, so that NOT is the opposite. JSON is read by SQLite's JSON functions. Each
# comparison checks the type first, because to them a list is a text and true is 1.

COMPARISONS = {"eq": "=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<=", "glob": "GLOB"}
IS_TEXT, IS_NUMBER = "= 'text'", "IN ('integer', 'real')"
NEVER, ALWAYS = "0", "1"


class SqlField(NamedTuple):
    """What a condition compares: a column, an expression, or a value within a column of JSON."""

    # The expression, or the column of JSON.
    sql: str
    # `data` for a value within JSON.
    type: FieldType
    # The JSON path, "" for other types. It is bound, never part of the SQL.
    path: str = ""

    @property
    def value_sql(self) -> str:
        """The SQL of the value, which has the values of `bound`."""
        return f"json_extract({self.sql}, ?)" if self.type == "data" else self.sql

    @property
    def bound(self) -> tuple[Any, ...]:
        """The values of `value_sql`."""
        return (self.path,) if self.type == "data" else ()


def compiled(given: dict[str, Any] | None) -> Given | None:
    """Compile a filter, None for none. Raises ValidationError: an unchecked filter is invalid."""
    return Given(*_compile(parse_filter(given)), given) if given else None


def _compile(node: Node) -> Clause:
    match node:
        case AllOf(parts):
            return _join(" AND ", parts, ALWAYS)
        case AnyOf(parts):
            return _join(" OR ", parts, NEVER)
        case Not(part):
            return negate(_compile(part))
        case Condition("data"):
            field = SqlField("r.data", "data", json_path(node.path))
            return compare(field, node.operator, node.value)
    return compare(SqlField(f"r.{node.field}", FIELDS[node.field]), node.operator, node.value)


def _join(word: str, parts: tuple[Node, ...], empty: str) -> Clause:
    clauses = [_compile(part) for part in parts]
    sql = word.join(clause for clause, _ in clauses) or empty
    return f"({sql})", tuple(value for _, values in clauses for value in values)


def json_path(keys: Iterable[str]) -> str:
    """Return the path of SQLite to these keys."""
    return "$" + "".join(f".{orjson.dumps(key).decode()}" for key in keys)


def negate(clause: Clause) -> Clause:
    """Return the exact opposite of a condition. A NULL is false."""
    sql, values = clause
    return f"(NOT coalesce({sql}, 0))", values


def compare(field: SqlField, operator: str, value: Any) -> Clause:
    """Return the SQL of one condition: an operator of Condition, or `glob`.

    The value is as `convert_value` returns it.
    """
    if field.type == "data":
        return _compare_json(field, operator, value)
    column = field.sql
    match operator:
        case "eq" if value is None:
            return f"({column} IS NULL)", ()
        case "in":
            return _is_among(column, value)
        case "exists":
            return f"({column} IS NOT NULL)", ()
        case "contains":
            return (HAS_TAG if field.type == "tags" else f"(instr({column}, ?) > 0)"), (value,)
    return f"({column} {COMPARISONS[operator]} ?)", (value,)


def _is_among(column: str, allowed: tuple[Scalar, ...]) -> Clause:
    values = [value for value in allowed if value is not None]
    clauses = []
    if None in allowed:
        clauses.append(f"({column} IS NULL)")
    if values:
        clauses.append(f"{column} IN ({_placeholders(values)})")
    return f"({' OR '.join(clauses) or NEVER})", tuple(values)


def _compare_json(field: SqlField, operator: str, value: Any) -> Clause:
    column, path = field.sql, field.path
    match operator:
        case "in":
            return _is_among_json(field, value)
        case "exists":
            return f"(json_type({column}, ?) IS NOT NULL)", (path,)
        case "contains":
            return _contains(field, value)
        case "eq" if value is None or isinstance(value, bool):
            return _is_among_json(field, (value,))
    comparison = f"{COMPARISONS[operator]} ?"
    return _has_type(field, IS_TEXT if isinstance(value, str) else IS_NUMBER, comparison, [value])


def _has_type(field: SqlField, is_type: str, comparison: str, values: list[Any]) -> Clause:
    """Return the condition that a JSON value has a type and the comparison holds."""
    type_, value = f"json_type({field.sql}, ?)", f"json_extract({field.sql}, ?)"
    return f"({type_} {is_type} AND {value} {comparison})", (field.path, field.path, *values)


def _is_among_json(field: SqlField, allowed: tuple[Scalar, ...]) -> Clause:
    """Return the condition that the JSON value equals one of these. A missing value is null."""
    clauses = list[Clause]()
    for constant in dict.fromkeys(one for one in allowed if one is None or isinstance(one, bool)):
        sql = f"coalesce(json_type({field.sql}, ?), 'null') = ?"
        clauses.append((sql, (field.path, _name_in_json(constant))))
    texts = [one for one in allowed if isinstance(one, str)]
    numbers = [one for one in allowed if isinstance(one, int | float) and not isinstance(one, bool)]
    if texts:
        clauses.append(_has_type(field, IS_TEXT, f"IN ({_placeholders(texts)})", texts))
    if numbers:
        clauses.append(_has_type(field, IS_NUMBER, f"IN ({_placeholders(numbers)})", numbers))
    sql = " OR ".join(clause for clause, _ in clauses) or NEVER
    return f"({sql})", tuple(value for _, values in clauses for value in values)


def _contains(field: SqlField, value: Scalar) -> Clause:
    """Return the condition that the JSON value is a text or list that contains this."""
    column, path = field.sql, field.path
    if value is None or isinstance(value, bool):
        is_equal, element = "type = ?", cast(Scalar, _name_in_json(value))
    else:
        is_type = IS_TEXT if isinstance(value, str) else IS_NUMBER
        is_equal, element = f"type {is_type} AND value = ?", value
    elements = f"EXISTS (SELECT 1 FROM json_each({column}, ?) WHERE {is_equal})"
    in_list = f"WHEN 'array' THEN {elements}"
    if not isinstance(value, str):
        return f"(CASE json_type({column}, ?) {in_list} ELSE 0 END)", (path, path, element)
    in_text = f"WHEN 'text' THEN instr(json_extract({column}, ?), ?) > 0"
    sql = f"(CASE json_type({column}, ?) {in_text} {in_list} ELSE 0 END)"
    return sql, (path, path, element, path, element)


def _name_in_json(value: bool | None) -> str:
    return {None: "null", True: "true", False: "false"}[value]


def _placeholders(values: Collection[Any]) -> str:
    return ", ".join("?" * len(values))
