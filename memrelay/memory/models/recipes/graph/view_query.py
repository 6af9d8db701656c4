"""The query of a view template: parsed from JSON with every fault by place, and compiled to SQL.

A query matches a node, then follows up to 4 patterns of edges. A node or an edge may match several
patterns. Names have the spelling of the seed. Every value is bound.

The tables of the SQL are `n0` for the matched node, `n1` and so on for the nodes of the patterns,
and `e0` and so on for their edges. The joins run in the order of the patterns.
"""

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

from memrelay.memory.engine.filter_sql import Clause, SqlField
from memrelay.memory.models.recipes import NODE_KIND
from memrelay.memory.models.recipes.faults import FaultList, quoted, suggest
from memrelay.memory.models.recipes.graph.names import check_name
from memrelay.memory.models.recipes.queries import compile_condition, find_operator, json_field
from memrelay.memory.models.recipes.table import make_node_scope
from memrelay.memory.records.filters import BadValue
from memrelay.memory.validation import Place

KEYS = ("match", "patterns", "where", "orderBy", "skip", "limit", "return")
DIRECTIONS = ("outgoing", "incoming", "both")
# Fields of a node besides its attributes.
NODE_FIELDS = ("name", "kind", "valid_from", "valid_to")
MOST_PATTERNS = 4
MOST_CONDITIONS = 32
MOST_COLUMNS = 64
MAX_COLUMN_CHARACTERS = 128
MAX_LIMIT = 1000
DEFAULT_LIMIT = 100
LARGEST_SKIP = 1_000_000
# The operators that conditions accept besides their aliases.
OPERATORS = (
    *("=", "!=", "<>", ">", "<", ">=", "<=", "CONTAINS", "STARTS WITH", "ENDS WITH"),
    *("IN", "NOT IN", "IS NULL", "IS NOT NULL"),
)
VALUELESS = ("is null", "is not null", "exists")
_ALIAS = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
IS_NODE = (
    "{0}.kind >= 'recipe.' AND {0}.kind < 'recipe/' "
    f"AND {{0}}.kind = '{NODE_KIND}' AND {{0}}.scope = ?"
)
IS_EDGE = "{0}.instance = ? AND {0}.kind = ?"
IS_OF_KIND = "json_extract({0}.data, '$.kind') = ?"
# The columns of an edge at its known and its other node.
SIDES = {"outgoing": ("from_node", "to_node"), "incoming": ("to_node", "from_node")}


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
    # The required kind of each matched node, "" for any.
    kinds: tuple[str, ...]
    patterns: tuple[Pattern, ...]
    where: tuple[Clause, ...]
    # (field of a node, whether descending)
    order: tuple[tuple[SqlField, bool], ...]
    skip: int
    limit: int
    # The field of a node by the name of the column.
    columns: dict[str, SqlField]


def parse_query(submitted: Any) -> Query:
    """Parse the query of a view template. Raises InvalidInput with every fault."""
    parser = _Parser()
    query = parser.parse(submitted)
    parser.faults.raise_any("the query")
    return query


class _Parser:
    """Parses one query. `faults` collects its errors."""

    def __init__(self) -> None:
        self.faults = FaultList()
        # Positions of the matched nodes by alias, and the kinds by position.
        self._nodes: dict[str, int] = {}
        self._kinds: list[str] = []

    def parse(self, submitted: Any) -> Query:
        query = self._object(submitted, ("query",))
        for key in query.keys() - {*KEYS}:
            hint = ": `with` is not supported" if key == "with" else suggest(key, KEYS)
            self.faults.add(("query", key), "unknown_param", f"unknown key {quoted(key)}{hint}")
        self._add_node(("query", "match"), self._object(query.get("match"), ("query", "match")))
        patterns = self._list(query, "patterns", MOST_PATTERNS)
        return Query(
            # The patterns add kinds, so they are parsed first.
            patterns=tuple(self._pattern(path, pattern) for path, pattern in patterns),
            kinds=tuple(self._kinds),
            where=tuple(
                self._condition(path, condition)
                for path, condition in self._list(query, "where", MOST_CONDITIONS)
            ),
            order=tuple(
                self._order(path, term)
                for path, term in self._list(query, "orderBy", MOST_CONDITIONS)
            ),
            skip=self._number(query, "skip", (0, LARGEST_SKIP), 0),
            limit=self._number(query, "limit", (1, MAX_LIMIT), DEFAULT_LIMIT),
            columns=self._columns(query),
        )

    def _object(self, value: Any, path: Place) -> dict[str, Any]:
        if value is None:
            self.faults.add(path, "required", f"{path[-1]} is missing")
            return {}
        return self.faults.take_object(value, path)

    def _list(self, query: dict[str, Any], key: str, most: int) -> list[tuple[Place, Any]]:
        """Return the elements of a list with their paths."""
        value = query.get(key)
        elements = [] if value is None else self.faults.take_list(value, ("query", key), most)
        return [(("query", key, at), element) for at, element in enumerate(elements)]

    def _number(self, query: dict[str, Any], key: str, valid: tuple[int, int], default: int) -> int:
        return self.faults.take_integer(query.get(key, default), ("query", key), *valid)

    def _add_node(self, path: Place, node: dict[str, Any]) -> int:
        """Add the matched node of an alias that is new. Return its position."""
        alias = node.get("alias")
        if not isinstance(alias, str) or not _ALIAS.fullmatch(alias):
            rule = "is a name like a, of letters and digits"
            self.faults.add((*path, "alias"), "bad_alias", rule)
        elif alias not in self._nodes:
            self._nodes[alias] = len(self._kinds)
        self._kinds.append(self._kind(path, node))
        return len(self._kinds) - 1

    def _kind(self, path: Place, node: dict[str, Any]) -> str:
        """Return the kind that a matched node must have, "" for any."""
        kind = node.get("recordKind", node.get("record_kind"))
        if kind is None or not check_name(kind, (*path, "recordKind"), self.faults):
            return ""
        return str(kind)

    def _pattern(self, path: Place, submitted: Any) -> Pattern:
        pattern = self._object(submitted, path)
        start, direction = pattern.get("from"), pattern.get("direction", "outgoing")
        if not isinstance(start, str) or start not in self._nodes:
            message = f'no earlier alias "{start}"{suggest(start, self._nodes)}'
            self.faults.add((*path, "from"), "bad_source", message)
        check_name(pattern.get("edge"), (*path, "edge"), self.faults)
        if direction not in DIRECTIONS:
            self.faults.add((*path, "direction"), "bad_enum", "is outgoing, incoming or both")
        end = pattern.get("to")
        end = self._object({"alias": end} if isinstance(end, str) else end, (*path, "to"))
        node = self._nodes.get(str(end.get("alias")))
        is_new = node is None
        if node is None:
            node = self._add_node((*path, "to"), end)
        else:
            self._narrow((*path, "to"), node, end)
        edge = str(pattern.get("edge"))
        return Pattern(self._nodes.get(str(start), 0), edge, node, str(direction), is_new)

    def _narrow(self, path: Place, node: int, end: dict[str, Any]) -> None:
        """Add the kind that a pattern requires of a node which an earlier part matches."""
        kind = self._kind(path, end)
        if not kind:
            return
        if self._kinds[node] not in ("", kind):
            message = f'the alias already has the kind "{self._kinds[node]}"'
            self.faults.add((*path, "recordKind"), "conflicting_keys", message)
        self._kinds[node] = kind

    def _field(self, path: Place, term: dict[str, Any]) -> SqlField:
        """Return the field that the `expression` of a term names: `a.name`."""
        path, expression = (*path, "expression"), term.get("expression")
        alias, dot, name = (
            expression.partition(".") if isinstance(expression, str) else ("", "", "")
        )
        if not dot or alias not in self._nodes:
            rule = f"is a field of a matched node, like a.name{suggest(alias, self._nodes)}"
            self.faults.add(path, "bad_expression", rule)
            return SqlField("n0.key", "text")
        node = f"n{self._nodes[alias]}"
        if name == "id":
            return SqlField(f"{node}.key", "text")
        keys = name if name in NODE_FIELDS else f"attributes.{name}"
        field = json_field(f"{node}.data", keys)
        if field is None:
            self.faults.add(path, "bad_expression", "names a field after the dot, like a.name")
        return field or SqlField("n0.key", "text")

    def _condition(self, path: Place, submitted: Any) -> Clause:
        condition = self._object(submitted, path)
        field, word = self._field(path, condition), condition.get("operator", "=")
        operator = find_operator(word) if isinstance(word, str) else None
        if operator is None:
            message = f'unknown operator "{word}"{suggest(str(word), OPERATORS)}'
            self.faults.add((*path, "operator"), "bad_enum", message)
        elif "value" not in condition and operator not in VALUELESS:
            self.faults.add((*path, "value"), "required", "is missing")
        else:
            try:
                return compile_condition(field, operator, condition.get("value"))
            except BadValue as error:
                self.faults.add((*path, "value"), "bad_type", str(error))
        return "0", ()

    def _order(self, path: Place, submitted: Any) -> tuple[SqlField, bool]:
        term = self._term(path, submitted)
        direction = str(term.get("direction", "asc")).lower()
        if direction not in ("asc", "desc"):
            self.faults.add((*path, "direction"), "bad_enum", "is asc or desc")
        return self._field(path, term), direction == "desc"

    def _columns(self, query: dict[str, Any]) -> dict[str, SqlField]:
        columns: dict[str, SqlField] = {}
        for path, submitted in self._list(query, "return", MOST_COLUMNS):
            term = self._term(path, submitted)
            field, name = self._field(path, term), term.get("alias", term.get("expression"))
            if not isinstance(name, str) or not 1 <= len(name) <= MAX_COLUMN_CHARACTERS:
                rule = f"is a text of 1 to {MAX_COLUMN_CHARACTERS} characters"
                self.faults.add((*path, "alias"), "bad_alias", rule)
            elif name in columns:
                self.faults.add((*path, "alias"), "duplicate_alias", f'"{name}" occurs twice')
            else:
                columns[name] = field
        if not columns and not self.faults.found:
            self.faults.add(("query", "return"), "required", "names at least one column")
        return columns

    def _term(self, path: Place, submitted: Any) -> dict[str, Any]:
        """Return an expression with its options. A text is an expression without options."""
        is_text = isinstance(submitted, str)
        return self._object({"expression": submitted} if is_text else submitted, path)


class Compiled(NamedTuple):
    """The FROM and WHERE of a query, with the order of its rows, and their values."""

    source: str
    values: tuple[Any, ...]
    order: str
    order_values: tuple[Any, ...]


def compile_query(query: Query, instance: str, node: str | None = None) -> Compiled:
    """Compile a query over a graph. With `node`, only that node can be the matched one."""
    scope = make_node_scope(instance)
    index = "node_kinds" if node is None and query.kinds[0] else "recipe_keys"
    parts = [f"records AS n0 INDEXED BY {index}"]
    clauses, values = [IS_NODE.format("n0")], [scope]
    if node is not None:
        clauses.append("n0.key = ?")
        values.append(node)
    joined: list[Any] = []
    for at, pattern in enumerate(query.patterns):
        sql, bound = _join(pattern, at, instance)
        parts.append(sql)
        joined += bound
    for at, kind in enumerate(query.kinds):
        if kind:
            clauses.append(IS_OF_KIND.format(f"n{at}"))
            values.append(kind)
    for sql, bound in query.where:
        clauses.append(sql)
        values += bound
    source = f" FROM {' CROSS JOIN '.join(parts)} WHERE {' AND '.join(clauses)}"
    order, order_values = _order(query)
    return Compiled(source, (*joined, *values), order, order_values)


def _join(pattern: Pattern, at: int, instance: str) -> Clause:
    """Return the joins of an edge and of its end."""
    edge, start, end = f"e{at}", f"n{pattern.start}", f"n{pattern.end}"
    values: tuple[Any, ...]
    if pattern.direction == "both":
        # SQLite would read all edges of the graph for an OR. An edge of a node to itself has one
        # row.
        sides = " UNION ALL ".join(
            f"SELECT row FROM edges AS e WHERE {IS_EDGE.format('e')} AND e.{side} = {start}.key"
            for side in ("from_node", "to_node")
        )
        joined = f"edges AS {edge} ON {edge}.row IN ({sides})"
        far = f"iif({edge}.from_node = {start}.key, {edge}.to_node, {edge}.from_node)"
        values = (instance, pattern.edge, instance, pattern.edge)
    else:
        near, other = SIDES[pattern.direction]
        index = f"INDEXED BY edges_{near.removesuffix('_node')}"
        is_edge = f"{IS_EDGE.format(edge)} AND {edge}.{near} = {start}.key"
        joined, far = f"edges AS {edge} {index} ON {is_edge}", f"{edge}.{other}"
        values = (instance, pattern.edge)
    if not pattern.is_new:
        return f"{joined} AND {end}.key = {far}", values
    node = f"records AS {end} INDEXED BY recipe_keys ON {IS_NODE.format(end)} AND {end}.key = {far}"
    return f"{joined} CROSS JOIN {node}", (*values, make_node_scope(instance))


def _order(query: Query) -> Clause:
    """Return the order of rows: missing values last, then as nodes and edges were added."""
    terms, values = list[str](), list[Any]()
    for field, is_descending in query.order:
        direction = "DESC" if is_descending else "ASC"
        terms += [f"{field.value_sql} IS NULL", f"{field.value_sql} {direction}"]
        values += [*field.bound, *field.bound]
    terms += ["n0.row", *(f"e{at}.row" for at in range(len(query.patterns)))]
    return f" ORDER BY {', '.join(terms)}", tuple(values)


def compile_columns(query: Query) -> Clause:
    """Return the columns of a query in SQL, two for each expression: its JSON type and its value.

    The type of an id is not NULL and no type of JSON, since an id is not stored as JSON.
    """
    columns, values = list[str](), list[Any]()
    for field in query.columns.values():
        if field.type != "data":
            columns += ["'text'", field.sql]
            continue
        columns += [f"json_type({field.sql}, ?)", field.value_sql]
        values += [field.path, field.path]
    return ", ".join(columns), tuple(values)
