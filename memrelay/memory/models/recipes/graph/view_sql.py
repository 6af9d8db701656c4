"""Compile the query of a view to SQL: names are looked up, and every value is bound.

The tables of the SQL are `n0` for the matched node, `n1` and so on for the nodes of the patterns,
and `e0` and so on for their edges. The joins run in the order of the patterns.
"""

from typing import Any, NamedTuple

from memrelay.memory.models.recipes import NODE_KIND
from memrelay.memory.models.recipes.faults import FaultList
from memrelay.memory.models.recipes.graph.table import scope_of
from memrelay.memory.models.recipes.graph.view_query import Expression, Pattern, Query
from memrelay.memory.models.recipes.sources.where import Clause, SqlField, compile_condition
from memrelay.memory.records.filters import BadValue

IS_NODE = (
    "{0}.kind >= 'recipe.' AND {0}.kind < 'recipe/' "
    f"AND {{0}}.kind = '{NODE_KIND}' AND {{0}}.scope = ?"
)
IS_EDGE = "{0}.instance = ? AND {0}.kind = ?"
IS_OF_KIND = "json_extract({0}.data, '$.kind') = ?"
# The columns of an edge at its known and its other node.
SIDES = {"outgoing": ("from_node", "to_node"), "incoming": ("to_node", "from_node")}


class Compiled(NamedTuple):
    """The FROM and WHERE of a query, with the order of its rows, and their values."""

    source: str
    values: tuple[Any, ...]
    order: str
    order_values: tuple[Any, ...]


def check_values(query: Query) -> None:
    """Raise InvalidInput if the value of a condition does not fit its operator."""
    faults = FaultList()
    for at, (expression, operator, value) in enumerate(query.where):
        try:
            compile_condition(_field(expression), operator, value)
        except BadValue as error:
            faults.add(("query", "where", at, "value"), "bad_type", str(error))
    faults.raise_any("the query")


def compile_query(query: Query, instance: str, node: str | None = None) -> Compiled:
    """Compile a query over a graph. With `node`, only that node can be the matched one."""
    scope = scope_of(instance)
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
    for expression, operator, value in query.where:
        sql, bound = compile_condition(_field(expression), operator, value)
        clauses.append(sql)
        values += bound
    source = f" FROM {' CROSS JOIN '.join(parts)} WHERE {' AND '.join(clauses)}"
    order, order_values = _order(query)
    return Compiled(source, (*joined, *values), order, order_values)


def columns_of(query: Query) -> Clause:
    """Return the columns of a query in SQL, two for each expression: its JSON type and its value.

    The type of an id is not NULL and no type of JSON, since an id is not stored as JSON.
    """
    columns, values = list[str](), list[Any]()
    for expression, _ in query.columns:
        field = _field(expression)
        if field.sort != "json":
            columns += ["'text'", field.sql]
            continue
        columns += [f"json_type({field.sql}, ?)", field.value_sql]
        values += [field.path, field.path]
    return ", ".join(columns), tuple(values)


def _field(expression: Expression) -> SqlField:
    field = expression.field()
    # Parsed queries have valid names only.
    assert field is not None
    return field


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
        known, other = SIDES[pattern.direction]
        index = f"INDEXED BY edges_{known.removesuffix('_node')}"
        is_edge = f"{IS_EDGE.format(edge)} AND {edge}.{known} = {start}.key"
        joined, far = f"edges AS {edge} {index} ON {is_edge}", f"{edge}.{other}"
        values = (instance, pattern.edge)
    if not pattern.is_new:
        return f"{joined} AND {end}.key = {far}", values
    node = f"records AS {end} INDEXED BY recipe_keys ON {IS_NODE.format(end)} AND {end}.key = {far}"
    return f"{joined} CROSS JOIN {node}", (*values, scope_of(instance))


def _order(query: Query) -> Clause:
    """Return the order of rows: missing values last, then as nodes and edges were added."""
    terms, values = list[str](), list[Any]()
    for expression, is_descending in query.order:
        field = _field(expression)
        direction = "DESC" if is_descending else "ASC"
        terms += [f"{field.value_sql} IS NULL", f"{field.value_sql} {direction}"]
        values += [*field.bound, *field.bound]
    terms += ["n0.row", *(f"e{at}.row" for at in range(len(query.patterns)))]
    return f" ORDER BY {', '.join(terms)}", tuple(values)
