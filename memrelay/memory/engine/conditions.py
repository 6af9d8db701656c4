"""Conditions on records as SQL: filters and expiry. They apply before any limit."""

from typing import Any, NamedTuple, cast

import apsw
import orjson
from msgspec import Struct

from memrelay.memory.records.filters import (
    FIELDS,
    AllOf,
    AnyOf,
    Condition,
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

    def clauses(self) -> tuple[list[str], list[Any]]:
        """Return (SQL conditions on `records AS r`, their values).

        The SQL has no text from users.
        """
        clauses = [f"r.{name} = ?" for name in self.equal]
        values: list[Any] = [*self.equal.values()]
        for name, wanted in (("kind", self.kinds), ("scope", self.scopes)):
            if wanted:
                clauses.append(f"r.{name} IN ({', '.join('?' * len(wanted))})")
                values += wanted
        clauses += [HAS_TAG] * len(self.tags)
        values += self.tags
        if self.globs:
            clauses.append(TAG_MATCHES)
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
        if self.without_agents:
            clauses.append(NO_AGENT_MEMORY)
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


# A filter as SQL over `records AS r`. Every value from its writer is a parameter. A NULL condition
# does not hold. Under NOT it becomes 0, so that NOT is the opposite. `data` is read by SQLite's
# JSON functions. Each comparison checks the type first, because to them a list is a text and true
# is 1.

COMPARISONS = {"eq": "=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
TYPE = "json_type(r.data, ?)"
EXTRACTED = "json_extract(r.data, ?)"
ELEMENTS = "json_each(r.data, ?)"
IS_TEXT, IS_NUMBER = "= 'text'", "IN ('integer', 'real')"
NEVER, ALWAYS = "0", "1"


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
            sql, values = _compile(part)
            return f"(NOT coalesce({sql}, 0))", values
        case Condition("data"):
            return _data_condition(node)
    return _column_condition(node)


def _join(word: str, parts: tuple[Node, ...], empty: str) -> Clause:
    clauses = [_compile(part) for part in parts]
    return f"({word.join(sql for sql, _ in clauses) or empty})", tuple(
        value for _, values in clauses for value in values
    )


def _column_condition(node: Condition) -> Clause:
    column, value = f"r.{node.field}", cast(Any, node.value)
    match node.operator:
        case "eq":
            return (
                (f"({column} = ?)", (value,)) if value is not None else (f"({column} IS NULL)", ())
            )
        case "in":
            clauses = [f"({column} IS NULL)"] * (None in value)
            given = [one for one in value if one is not None]
            clauses += [f"{column} IN ({_placeholders(given)})"] * bool(given)
            return f"({' OR '.join(clauses) or NEVER})", tuple(given)
        case "exists":
            return f"({column} IS NOT NULL)", ()
        case "contains":
            return (HAS_TAG if FIELDS[node.field] == "tags" else f"(instr({column}, ?) > 0)"), (
                value,
            )
    return f"({column} {COMPARISONS[node.operator]} ?)", (value,)


def _data_condition(node: Condition) -> Clause:
    path = "$" + "".join(f".{orjson.dumps(step).decode()}" for step in node.path)
    value = cast(Any, node.value)
    match node.operator:
        case "in":
            return _equals_any(path, value)
        case "exists":
            return f"({TYPE} IS NOT NULL)", (path,)
        case "contains":
            return _contains(path, value)
        case "eq" if value is None or isinstance(value, bool):
            return _equals_any(path, (value,))
    is_type = IS_TEXT if isinstance(value, str) else IS_NUMBER
    return f"({TYPE} {is_type} AND {EXTRACTED} {COMPARISONS[node.operator]} ?)", (path, path, value)


def _equals_any(path: str, wanted: tuple[Scalar, ...]) -> Clause:
    """Return the condition that the value at the path equals one of these. A
    missing value is null.
    """
    constants = dict.fromkeys(one for one in wanted if one is None or isinstance(one, bool))
    names = list(map(_json_name, constants))
    clauses = [f"coalesce({TYPE}, 'null') = ?"] * len(names)
    values: list[Any] = [value for name in names for value in (path, name)]
    for is_type, given in ((IS_TEXT, _only_texts(wanted)), (IS_NUMBER, _only_numbers(wanted))):
        if given:
            clauses.append(f"({TYPE} {is_type} AND {EXTRACTED} IN ({_placeholders(given)}))")
            values += [path, path, *given]
    return f"({' OR '.join(clauses) or NEVER})", tuple(values)


def _contains(path: str, value: Scalar) -> Clause:
    """Return the condition that the value at the path is a text or list that contains this."""
    if value is None or isinstance(value, bool):
        wanted, sought = "type = ?", cast(Scalar, _json_name(value))
    else:
        wanted, sought = (
            f"type {IS_TEXT if isinstance(value, str) else IS_NUMBER} AND value = ?",
            value,
        )
    element = f"WHEN 'array' THEN EXISTS (SELECT 1 FROM {ELEMENTS} WHERE {wanted})"
    if not isinstance(value, str):
        return f"(CASE {TYPE} {element} ELSE 0 END)", (path, path, sought)
    within = f"WHEN 'text' THEN instr({EXTRACTED}, ?) > 0"
    return f"(CASE {TYPE} {within} {element} ELSE 0 END)", (path, path, sought, path, sought)


def _json_name(value: bool | None) -> str:
    return {None: "null", True: "true", False: "false"}[value]


def _only_texts(wanted: tuple[Scalar, ...]) -> list[str]:
    return [one for one in wanted if isinstance(one, str)]


def _only_numbers(wanted: tuple[Scalar, ...]) -> list[int | float]:
    return [one for one in wanted if isinstance(one, int | float) and not isinstance(one, bool)]


def _placeholders(values: list[Any]) -> str:
    return ", ".join("?" * len(values))
