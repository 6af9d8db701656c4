"""The query of a view template: parsed from JSON, with every fault by place.

A query matches a node, then follows up to 4 patterns of edges. A node or an edge may match several
patterns. Names have the spelling of the seed.
"""

import re
from dataclasses import dataclass
from typing import Any

from memrelay.memory.models.recipes.faults import FaultList, suggest
from memrelay.memory.models.recipes.graph.names import check_name
from memrelay.memory.models.recipes.sources.where import SqlField, json_field, operator_name
from memrelay.memory.validation import Place

KEYS = ("match", "patterns", "where", "orderBy", "skip", "limit", "return")
DIRECTIONS = ("outgoing", "incoming", "both")
# Fields of a node besides its attributes.
NODE_FIELDS = ("name", "kind", "valid_from", "valid_to")
MOST_PATTERNS = 4
MOST_CONDITIONS = 32
MOST_COLUMNS = 64
MAX_LIMIT = 1000
DEFAULT_LIMIT = 100
LARGEST_SKIP = 1_000_000
# The operators that conditions accept besides their aliases.
OPERATORS = (
    *("=", "!=", "<>", ">", "<", ">=", "<=", "CONTAINS", "STARTS WITH", "ENDS WITH"),
    *("IN", "NOT IN", "IS NULL", "IS NOT NULL"),
)
VALUELESS = ("is null", "is not null")
_ALIAS = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


@dataclass(frozen=True, slots=True)
class Expression:
    """A field of a matched node. `node` is its position among the nodes of the query."""

    node: int
    name: str

    def field(self) -> SqlField | None:
        """Return the field in SQL, None if the name is malformed."""
        table = f"n{self.node}"
        if self.name == "id":
            return SqlField(f"{table}.key", "text")
        if self.name in NODE_FIELDS:
            return json_field(f"{table}.data", self.name)
        return json_field(f"{table}.data", f"attributes.{self.name}")


@dataclass(frozen=True, slots=True)
class Pattern:
    """An edge between two matched nodes."""

    start: int
    edge: str
    end: int
    direction: str
    # Whether no earlier part matches its end.
    is_new: bool


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed query."""

    # The required kind of each matched node, "" for any.
    kinds: tuple[str, ...]
    patterns: tuple[Pattern, ...]
    # (expression, operator, value)
    where: tuple[tuple[Expression, str, Any], ...]
    # (expression, whether descending)
    order: tuple[tuple[Expression, bool], ...]
    skip: int
    limit: int
    # (expression, name of the column)
    columns: tuple[tuple[Expression, str], ...]


def parse_query(given: Any) -> Query:
    """Parse the query of a view template. Raises InvalidInput with every fault."""
    parser = _Parser()
    query = parser.parse(given)
    parser.faults.raise_any("the query")
    return query


class _Parser:
    """Parses one query. `faults` collects its errors."""

    def __init__(self) -> None:
        self.faults = FaultList()
        self._nodes: dict[str, int] = {}
        self._kinds: list[str] = []

    def parse(self, given: Any) -> Query:
        given = self._object(("query",), given)
        for key in given.keys() - {*KEYS}:
            hint = ": `with` is not supported" if key == "with" else suggest(key, KEYS)
            self.faults.add(("query", key), "unknown_param", f'unknown key "{key[:64]}"{hint}')
        self._add_node(("query", "match"), self._object(("query", "match"), given.get("match")))
        patterns = self._list(given, "patterns", MOST_PATTERNS)
        return Query(
            # The patterns add kinds, so they are parsed first.
            patterns=tuple(self._pattern(("query", "patterns", at), p) for at, p in patterns),
            kinds=tuple(self._kinds),
            where=tuple(
                self._condition(("query", "where", at), one)
                for at, one in self._list(given, "where", MOST_CONDITIONS)
            ),
            order=tuple(
                self._order(("query", "orderBy", at), one)
                for at, one in self._list(given, "orderBy", MOST_CONDITIONS)
            ),
            skip=self._number(given, "skip", (0, LARGEST_SKIP), 0),
            limit=self._number(given, "limit", (1, MAX_LIMIT), DEFAULT_LIMIT),
            columns=self._columns(given),
        )

    def _object(self, place: Place, value: Any) -> dict[str, Any]:
        if isinstance(value, dict) and all(isinstance(key, str) for key in value):
            return value
        code = "required" if value is None else "bad_type"
        self.faults.add(place, code, "is missing" if value is None else "is an object")
        return {}

    def _list(self, given: dict[str, Any], key: str, most: int) -> list[tuple[int, Any]]:
        value = given.get(key)
        if value is None:
            return []
        if not isinstance(value, list) or len(value) > most:
            self.faults.add(("query", key), "out_of_range", f"is a list of at most {most} objects")
            return []
        return [*enumerate(value)]

    def _add_node(self, place: Place, given: dict[str, Any]) -> int:
        """Add the matched node of an alias that is new. Return its position."""
        alias, kind = given.get("alias"), given.get("recordKind", given.get("record_kind"))
        if not isinstance(alias, str) or not _ALIAS.fullmatch(alias):
            self.faults.add(
                (*place, "alias"), "bad_alias", "is a name like a, of letters and digits"
            )
        elif alias not in self._nodes:
            self._nodes[alias] = len(self._kinds)
        if kind is not None and not check_name(kind, (*place, "recordKind"), self.faults):
            kind = None
        self._kinds.append(kind or "")
        return len(self._kinds) - 1

    def _pattern(self, place: Place, given: Any) -> Pattern:
        given = self._object(place, given)
        start, direction = given.get("from"), given.get("direction", "outgoing")
        if not isinstance(start, str) or start not in self._nodes:
            hint = suggest(str(start), self._nodes)
            self.faults.add((*place, "from"), "bad_source", f'no earlier alias "{start}"{hint}')
        check_name(given.get("edge"), (*place, "edge"), self.faults)
        if direction not in DIRECTIONS:
            self.faults.add((*place, "direction"), "bad_enum", "is outgoing, incoming or both")
        end = given.get("to")
        end = self._object((*place, "to"), {"alias": end} if isinstance(end, str) else end)
        known = self._nodes.get(str(end.get("alias")))
        if known is None:
            node = self._add_node((*place, "to"), end)
        else:
            node = known
            self._narrow((*place, "to"), known, end)
        begin, edge = self._nodes.get(str(start), 0), str(given.get("edge"))
        return Pattern(begin, edge, node, str(direction), known is None)

    def _narrow(self, place: Place, node: int, given: dict[str, Any]) -> None:
        """Add the kind that a pattern requires of a node which an earlier part matches."""
        kind = given.get("recordKind", given.get("record_kind"))
        if kind is None or not check_name(kind, (*place, "recordKind"), self.faults):
            return
        if self._kinds[node] not in ("", kind):
            message = f'the alias already has the kind "{self._kinds[node]}"'
            self.faults.add((*place, "recordKind"), "conflicting_keys", message)
        self._kinds[node] = kind

    def _expression(self, place: Place, given: Any) -> Expression:
        alias, dot, name = given.partition(".") if isinstance(given, str) else ("", "", "")
        if not dot or alias not in self._nodes:
            hint = suggest(alias, self._nodes)
            self.faults.add(
                place, "bad_expression", f"is a field of a matched node, like a.name{hint}"
            )
            return Expression(0, "id")
        found = Expression(self._nodes[alias], name)
        if found.field() is None:
            self.faults.add(place, "bad_expression", "names a field after the dot, like a.name")
        return found

    def _condition(self, place: Place, given: Any) -> tuple[Expression, str, Any]:
        given = self._object(place, given)
        expression = self._expression((*place, "expression"), given.get("expression"))
        word = given.get("operator", "=")
        operator = operator_name(word) if isinstance(word, str) else None
        if operator is None:
            hint = suggest(str(word), OPERATORS)
            self.faults.add((*place, "operator"), "bad_enum", f'unknown operator "{word}"{hint}')
        elif "value" not in given and operator not in (*VALUELESS, "exists"):
            self.faults.add((*place, "value"), "required", "is missing")
        return expression, operator or "eq", given.get("value")

    def _order(self, place: Place, given: Any) -> tuple[Expression, bool]:
        given = self._object(place, {"expression": given} if isinstance(given, str) else given)
        direction = str(given.get("direction", "asc")).lower()
        if direction not in ("asc", "desc"):
            self.faults.add((*place, "direction"), "bad_enum", "is asc or desc")
        expression = self._expression((*place, "expression"), given.get("expression"))
        return expression, direction == "desc"

    def _number(self, given: dict[str, Any], key: str, valid: tuple[int, int], default: int) -> int:
        value = given.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool):
            self.faults.add(("query", key), "bad_type", "is an integer")
        elif not valid[0] <= value <= valid[1]:
            self.faults.add(("query", key), "out_of_range", f"is {valid[0]} to {valid[1]}")
        else:
            return value
        return default

    def _columns(self, given: dict[str, Any]) -> tuple[tuple[Expression, str], ...]:
        columns: dict[str, Expression] = {}
        for at, one in self._list(given, "return", MOST_COLUMNS):
            place = ("query", "return", at)
            one = self._object(place, {"expression": one} if isinstance(one, str) else one)
            expression = self._expression((*place, "expression"), one.get("expression"))
            name = one.get("alias", one.get("expression"))
            if not isinstance(name, str) or not 1 <= len(name) <= 128:
                self.faults.add((*place, "alias"), "bad_alias", "is a text of 1 to 128 characters")
            elif name in columns:
                self.faults.add((*place, "alias"), "duplicate_alias", f'"{name}" occurs twice')
            else:
                columns[name] = expression
        if not columns and not self.faults.found:
            self.faults.add(("query", "return"), "required", "names at least one column")
        return tuple((expression, name) for name, expression in columns.items())
