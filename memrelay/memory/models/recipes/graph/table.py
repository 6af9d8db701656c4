"""The edges and views of the home `recipes`, and the reads of its nodes by their place in a graph.

Nodes are records: kind `recipe.node`, scope `graph/<instance>`, key = the id of the node.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import apsw
import orjson

from memrelay.memory.engine.records import RecordTable
from memrelay.memory.engine.versions import StoredRecord, stored_records
from memrelay.memory.models.recipes import NODE_KIND
from memrelay.memory.records.columns import column_list

IS_NODE = f"r.kind >= 'recipe.' AND r.kind < 'recipe/' AND r.kind = '{NODE_KIND}' AND r.scope = ?"
BY_ID = f" INDEXED BY recipe_keys WHERE {IS_NODE}"
BY_NODE_KIND = f" INDEXED BY node_kinds WHERE {IS_NODE}"
IS_OF_KIND = " AND json_extract(r.data, '$.kind') = ?"
# Edges per statement.
TOGETHER = 100


class Edge(NamedTuple):
    """A directed edge of a graph. `created_at` is Unix ms."""

    id: str
    kind: str
    from_node: str
    to_node: str
    created_at: int


class View(NamedTuple):
    """A view template bound to a graph. `created_at` is Unix ms."""

    id: str
    template: str
    instance: str
    created_at: int


# The kind, and the ids of the nodes at which the edge begins and ends.
EdgeValues = tuple[str, str, str]


class EdgeFilter(NamedTuple):
    """The wanted edges: "" and 0 are no condition."""

    kind: str = ""
    from_node: str = ""
    to_node: str = ""
    after_row: int = 0


ALL_EDGES = EdgeFilter()
EDGE, VIEW = column_list(Edge._fields), column_list(View._fields)
INSERT_EDGES = f"INSERT INTO edges(instance, {EDGE}) VALUES "
OUTGOING = f"SELECT row, {EDGE} FROM edges WHERE instance = ?1 AND from_node = ?2"
INCOMING = f"SELECT row, {EDGE} FROM edges WHERE instance = ?1 AND to_node = ?2"
OF_KINDS = " AND kind IN (SELECT value FROM json_each(?3))"
EDGES_BETWEEN = (
    f"SELECT {column_list(Edge._fields, 'e.')} FROM json_each(?2) AS wanted CROSS JOIN edges AS e "
    "INDEXED BY edges_from ON e.instance = ?1 AND e.from_node = wanted.value "
    "WHERE e.to_node IN (SELECT value FROM json_each(?2)) ORDER BY e.row LIMIT ?3"
)

EDGES_TOUCHING = (
    f"SELECT row, {EDGE} FROM edges INDEXED BY edges_from WHERE instance = ?1 "
    "AND from_node IN (SELECT value FROM json_each(?2)) "
    f"UNION SELECT row, {EDGE} FROM edges INDEXED BY edges_to WHERE instance = ?1 "
    "AND to_node IN (SELECT value FROM json_each(?2)) ORDER BY row"
)
EQUAL_EDGES = (
    f"SELECT {column_list(Edge._fields, 'e.')} FROM json_each(?2) AS wanted CROSS JOIN edges AS e "
    "INDEXED BY edges_from ON e.instance = ?1 AND e.from_node = wanted.value ->> 1 "
    "AND e.to_node = wanted.value ->> 2 AND e.kind = wanted.value ->> 0"
)


def scope_of(instance: str) -> str:
    """Return the scope of the nodes of a graph."""
    return f"graph/{instance}"


class GraphTable:
    """Reads and writes edges and views inside the store's open transaction, and reads nodes."""

    def __init__(self, connection: apsw.Connection, records: RecordTable) -> None:
        self._connection, self._records = connection, records

    # Nodes are read in SQL together with edges, so buffered records are inserted first.

    def nodes(self, instance: str, kind: str, after: str, limit: int) -> Iterator[StoredRecord]:
        """Yield nodes whose id is greater than `after`, by id. A kind of "" is any kind."""
        self._records.flush()
        clauses = f"{BY_ID} AND r.key > ?{IS_OF_KIND if kind else ''} ORDER BY r.key LIMIT ?"
        values = [scope_of(instance), after, *([kind] if kind else []), limit]
        return stored_records(self._connection, clauses, values)

    def first_nodes(self, instance: str, limit: int) -> Iterator[StoredRecord]:
        """Yield the first nodes that were added."""
        self._records.flush()
        clauses = f"{BY_ID} ORDER BY r.row LIMIT ?"
        return stored_records(self._connection, clauses, [scope_of(instance), limit])

    def count_nodes(self, instance: str, kind: str = "") -> int:
        """Return the number of nodes of a graph. A kind of "" is any kind."""
        self._records.flush()
        source = f"{BY_NODE_KIND}{IS_OF_KIND}" if kind else BY_ID
        values = [scope_of(instance), *([kind] if kind else [])]
        return self._count(f"records AS r{source}", values)

    def node_kinds(self, instance: str, ids: Iterable[str]) -> dict[str, str]:
        """Return the kind of each of these nodes that exists, by id."""
        self._records.flush()
        found = self._connection.execute(
            "SELECT r.key, json_extract(r.data, '$.kind') FROM json_each(?1) AS wanted "
            f"CROSS JOIN records AS r INDEXED BY recipe_keys ON {IS_NODE.replace('?', '?2')} "
            "AND r.key = wanted.value",
            (_json(ids), scope_of(instance)),
        )
        return dict(found)

    def insert_edges(self, instance: str, edges: Sequence[Edge]) -> None:
        """Insert edges whose ids are free."""
        for first in range(0, len(edges), TOGETHER):
            some = edges[first : first + TOGETHER]
            rows = ", ".join(["(?, ?, ?, ?, ?, ?)"] * len(some))
            values = [value for edge in some for value in (instance, *edge)]
            self._connection.execute(INSERT_EDGES + rows, values)

    def taken_edges(self, instance: str, ids: Iterable[str]) -> list[str]:
        """Return the ids among these that edges of a graph have."""
        found = self._connection.execute(
            "SELECT id FROM edges WHERE instance = ? AND id IN (SELECT value FROM json_each(?))",
            (instance, _json(ids)),
        )
        return [id_ for (id_,) in found]

    def edge(self, instance: str, id_: str) -> Edge | None:
        """Return an edge, None if it does not exist."""
        query = f"SELECT {EDGE} FROM edges WHERE instance = ? AND id = ?"
        found = self._connection.execute(query, (instance, id_)).fetchone()
        return None if found is None else Edge._make(found)

    def edges(self, instance: str, wanted: EdgeFilter, limit: int) -> Iterator[tuple[int, Edge]]:
        """Yield (row, edge) of matching edges in the order in which they were added."""
        where, values = _edge_conditions(instance, wanted)
        found = self._connection.execute(
            f"SELECT row, {EDGE} FROM edges{where} ORDER BY row LIMIT ?", (*values, limit)
        )
        return ((row, Edge._make(edge)) for row, *edge in found)

    def count_edges(self, instance: str, wanted: EdgeFilter = ALL_EDGES) -> int:
        """Return the number of matching edges."""
        where, values = _edge_conditions(instance, wanted._replace(after_row=0))
        return self._count(f"edges{where}", values)

    def edges_at(
        self, instance: str, node: str, direction: str, kinds: Sequence[str] = ()
    ) -> Iterator[Edge]:
        """Yield the edges of a node in the order in which they were added, a loop once.

        `direction` is outgoing, incoming or both. No kinds are all kinds.
        """
        of_kinds = OF_KINDS if kinds else ""
        sides = {
            "outgoing": [OUTGOING],
            "incoming": [INCOMING],
            "both": [OUTGOING, f"{INCOMING} AND from_node <> ?2"],
        }[direction]
        query = " UNION ALL ".join(side + of_kinds for side in sides)
        values = (instance, node, *([_json(kinds)] if kinds else []))
        found = self._connection.execute(f"{query} ORDER BY row", values)
        return (Edge._make(edge) for _, *edge in found)

    def count_edges_at(self, instance: str, node: str, direction: str) -> int:
        """Return the number of edges of a node, a loop once."""
        sides = {
            "outgoing": "from_node = ?2",
            "incoming": "to_node = ?2",
            "both": "(from_node = ?2 OR to_node = ?2)",
        }
        return self._count(f"edges WHERE instance = ?1 AND {sides[direction]}", [instance, node])

    def edges_between(self, instance: str, nodes: Iterable[str], limit: int) -> list[Edge]:
        """Return the first edges that both begin and end at one of these nodes."""
        found = self._connection.execute(EDGES_BETWEEN, (instance, _json(nodes), limit))
        return [Edge._make(edge) for edge in found]

    def all_edges(self, instance: str) -> Iterator[Edge]:
        """Yield the edges of a graph in the order in which they were added."""
        query = f"SELECT {EDGE} FROM edges WHERE instance = ? ORDER BY row"
        return map(Edge._make, self._connection.execute(query, (instance,)))

    def edges_touching(self, instance: str, nodes: Iterable[str]) -> Iterator[Edge]:
        """Yield the edges that begin or end at one of these nodes, in the order of addition."""
        found = self._connection.execute(EDGES_TOUCHING, (instance, _json(nodes)))
        return (Edge._make(edge) for _, *edge in found)

    def equal_edges(self, instance: str, edges: Iterable[EdgeValues]) -> Iterator[Edge]:
        """Yield the edges that have the kind and the nodes of one of `edges`."""
        wanted = orjson.dumps([*edges]).decode()
        return map(Edge._make, self._connection.execute(EQUAL_EDGES, (instance, wanted)))

    def places(self, instance: str, ids: Iterable[str]) -> Iterator[StoredRecord]:
        """Yield the nodes with these ids, in the order in which they were added."""
        self._records.flush()
        clauses = f"{BY_ID} AND r.key IN (SELECT value FROM json_each(?)) ORDER BY r.row"
        return stored_records(self._connection, clauses, [scope_of(instance), _json(ids)])

    def delete_edge(self, instance: str, id_: str) -> None:
        """Delete an edge."""
        self._connection.execute("DELETE FROM edges WHERE instance = ? AND id = ?", (instance, id_))

    def delete_edges_at(self, instance: str, node: str) -> None:
        """Delete the edges of a node."""
        for side in ("from_node", "to_node"):
            query = f"DELETE FROM edges WHERE instance = ? AND {side} = ?"
            self._connection.execute(query, (instance, node))

    def delete_rows(self, instance: str) -> None:
        """Delete all edges and views of a graph."""
        for table in ("edges", "views"):
            self._connection.execute(f"DELETE FROM {table} WHERE instance = ?", (instance,))

    def insert_view(self, view: View) -> None:
        """Insert a view whose id is free."""
        self._connection.execute(f"INSERT INTO views({VIEW}) VALUES (?, ?, ?, ?)", view)

    def view(self, id_: str) -> View | None:
        """Return a view, None if it does not exist."""
        found = self._connection.execute(f"SELECT {VIEW} FROM views WHERE id = ?", (id_,))
        return next((View._make(row) for row in found), None)

    def views(self, *, template: str = "", instance: str = "") -> list[View]:
        """Return views, the newest first. "" is any template or instance."""
        found = self._connection.execute(
            f"SELECT {VIEW} FROM views WHERE ?1 IN ('', template) AND ?2 IN ('', instance) "
            "ORDER BY created_at DESC, id",
            (template, instance),
        )
        return [View._make(row) for row in found]

    def delete_view(self, id_: str) -> None:
        """Delete a view."""
        self._connection.execute("DELETE FROM views WHERE id = ?", (id_,))

    def rows(self, query: str, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a compiled view."""
        self._records.flush()
        return iter(self._connection.execute(query, values))

    def _count(self, source: str, values: Sequence[Any]) -> int:
        return int(self._connection.execute(f"SELECT count(*) FROM {source}", values).get)


def _edge_conditions(instance: str, wanted: EdgeFilter) -> tuple[str, list[Any]]:
    where, values = " WHERE instance = ? AND row > ?", [instance, wanted.after_row]
    for column in ("kind", "from_node", "to_node"):
        if value := getattr(wanted, column):
            where += f" AND {column} = ?"
            values.append(value)
    return where, values


def _json(texts: Iterable[str]) -> str:
    return orjson.dumps([*texts]).decode()
