"""The tables of the built-in store `recipes`: records with keys, pairs, events, edges and views."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import apsw
import orjson

from memrelay.memory.engine.erasures import ModelErasure
from memrelay.memory.engine.filter_sql import Clause
from memrelay.memory.engine.keyed_table import KeyedTable
from memrelay.memory.engine.records import RecordTable
from memrelay.memory.engine.store import Store
from memrelay.memory.engine.table import StoreTable
from memrelay.memory.engine.versions import State, StoredRecord, stored_records
from memrelay.memory.models.recipes import (
    DOCUMENT_KIND,
    GRAPH_TEMPLATE_KIND,
    INSTANCE_KIND,
    NODE_KIND,
    RECIPE_KIND,
    RULE_ENGINE_KIND,
    VIEW_TEMPLATE_KIND,
)
from memrelay.memory.records.admission import admit_json, admit_names
from memrelay.memory.records.columns import column_list

# Kinds whose records have a key that is unique within the scope (migration 0026).
KEYED_KINDS = (
    RECIPE_KIND,
    INSTANCE_KIND,
    RULE_ENGINE_KIND,
    NODE_KIND,
    GRAPH_TEMPLATE_KIND,
    VIEW_TEMPLATE_KIND,
)
# SQLite uses the index only for a query with these comparisons.
BY_INDEX = " INDEXED BY recipe_keys WHERE r.kind >= 'recipe.' AND r.kind < 'recipe/'"
SET_PAIR = (
    "INSERT INTO kv(instance, namespace, key, value, updated_at) VALUES (?, ?, ?, ?, ?) "
    "ON CONFLICT DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at"
)
PAIR_COLUMNS = "namespace, key, value, updated_at"
SELECT_PAIRS = (
    f"SELECT {PAIR_COLUMNS} FROM kv WHERE instance = ? AND namespace = ? "
    "AND key IN (SELECT value FROM json_each(?))"
)
EVENT_COLUMNS = "id, stream, sequence, type, payload, metadata, at"
INSERT_EVENT = f"INSERT INTO events(instance, {EVENT_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
LAST_SEQUENCE = "SELECT coalesce(max(sequence), 0) FROM events WHERE instance = ? AND stream = ?"
# Each name is found with one jump in the index.
DISTINCT_NAMES = """
WITH RECURSIVE names(name) AS (
  SELECT min({column}) FROM {table} WHERE instance = ?1
  UNION ALL
  SELECT (SELECT min({column}) FROM {table} WHERE instance = ?1 AND {column} > name)
  FROM names WHERE name IS NOT NULL
)
SELECT name FROM names WHERE name IS NOT NULL LIMIT ?2
"""
NAMESPACES = DISTINCT_NAMES.format(table="kv", column="namespace")
STREAMS = DISTINCT_NAMES.format(table="events", column="stream")
NEWEST_FIRST = "at DESC, row DESC"
IS_NODE = f"r.kind >= 'recipe.' AND r.kind < 'recipe/' AND r.kind = '{NODE_KIND}' AND r.scope = ?"
BY_ID = f" INDEXED BY recipe_keys WHERE {IS_NODE}"
BY_NODE_KIND = f" INDEXED BY node_kinds WHERE {IS_NODE}"
IS_OF_KIND = " AND json_extract(r.data, '$.kind') = ?"
# Edges per statement.
TOGETHER = 100
# The kind, and the ids of the nodes at which the edge begins and ends.
EdgeValues = tuple[str, str, str]
OF_KINDS = " AND kind IN (SELECT value FROM json_each(?3))"


class RecipeRecords(KeyedTable):
    """Finds and writes the records of one kind inside the store's open transaction."""

    def __init__(self, store: Store, kind: str) -> None:
        super().__init__(store, kind, "recipe_keys")
        self._of_kind = f"{BY_INDEX} AND r.kind = '{kind}'"
        self._at_key = f"{self._of_kind} AND r.scope = ? AND r.key = ?"

    def page(self, scope: str, after: str, limit: int) -> Iterator[StoredRecord]:
        """Yield the records of a scope whose key is greater than `after`, in order of their key."""
        self._records.flush()
        clauses = f"{self._of_kind} AND r.scope = ? AND r.key > ? ORDER BY r.key LIMIT ?"
        return stored_records(self._connection, clauses, [scope, after, limit])

    def count(self, scope: str) -> int:
        """Return the number of records with a key in a scope."""
        self._records.flush()
        query = f"SELECT count(*) FROM records AS r{self._of_kind} AND r.scope = ?"
        return int(self._connection.execute(f"{query} AND r.key IS NOT NULL", (scope,)).get)


class DocumentRecords(RecipeRecords):
    """Finds and writes the chunks of documents.

    The chunks of a document share a thread. Only the first one has a key: the uri.
    """

    def chunks(self, thread: str) -> list[StoredRecord]:
        """Return the chunks of a document in order, none if it does not exist."""
        self._records.flush()
        clauses = f" WHERE r.thread = ? AND r.kind = '{DOCUMENT_KIND}' ORDER BY r.seq"
        return list(stored_records(self._connection, clauses, [thread]))

    def has_scope(self, scope: str) -> bool:
        self._records.flush()
        query = f"SELECT EXISTS (SELECT 1 FROM records AS r{self._of_kind} AND r.scope = ?)"
        return bool(self._connection.execute(query, (scope,)).get)

    def any(self) -> bool:
        self._records.flush()
        query = f"SELECT EXISTS (SELECT 1 FROM records AS r{self._of_kind})"
        return bool(self._connection.execute(query).get)

    def count_by_scope(self) -> list[tuple[str, int, int]]:
        """Return (scope, number of documents, number of chunks), in order of the scope."""
        self._records.flush()
        query = f"SELECT r.scope, count(r.key), count(*) FROM records AS r{self._of_kind}"
        return list(self._connection.execute(f"{query} GROUP BY r.scope ORDER BY r.scope"))


class RecipeTables(StoreTable):
    """The tables of the built-in store `recipes`."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)

        self.graph = GraphTable(store.connection, store.records)
        self.kv = KvTable(store.connection, store.records)
        self.events = EventTable(store.connection, store.records)
        self.documents = DocumentRecords(store, DOCUMENT_KIND)
        self.keyed = {kind: RecipeRecords(store, kind) for kind in KEYED_KINDS}
        self.keyed[DOCUMENT_KIND] = self.documents
        self.definitions = self.keyed[RECIPE_KIND]
        self.instances = self.keyed[INSTANCE_KIND]
        self.nodes = self.keyed[NODE_KIND]
        # Compiled definitions by guid, number and time of the change; load_recipe fills it.
        self.compiled: dict[tuple[str, int, int], Any] = {}

    def reset(self) -> None:
        """Forget the compiled definitions: one that was rolled back may be written differently."""
        self.compiled.clear()

    def holder(self, state: State) -> StoredRecord | None:
        """Return the other record that has the key of a record, None if it is free."""
        table = self.keyed.get(state.kind)
        return None if table is None else table.holder(state)


class Pair(NamedTuple):
    """A row. `value` is JSON, `updated_at` Unix ms."""

    namespace: str
    key: str
    value: str
    updated_at: int


class KvTable:
    """Reads and writes pairs inside the store's open transaction."""

    def __init__(self, connection: apsw.Connection, records: RecordTable) -> None:
        self._connection, self._records = connection, records

    def set(self, instance: str, pair: Pair) -> None:
        """Write a pair. It replaces the pair with its key. Raises PolicyStop."""
        if self._records.path.admit_texts:
            admit_names(self._records, "kv", (instance, pair.namespace, pair.key))
            pair = pair._replace(value=admit_json(self._records, "kv", pair.value))
        self._connection.execute(SET_PAIR, (instance, *pair))

    def get(self, instance: str, namespace: str, keys: Sequence[str]) -> dict[str, Pair]:
        """Return the pairs with these keys, by key."""
        keys_json = orjson.dumps(keys).decode()
        rows = self._connection.execute(SELECT_PAIRS, (instance, namespace, keys_json))
        return {pair.key: pair for pair in map(Pair._make, rows)}

    def delete(self, instance: str, namespace: str | None = None, key: str | None = None) -> int:
        """Delete the pairs of an instance, of a namespace or with a key. Return their number."""
        sql, values = _select_scope(instance, namespace)
        if key is not None:
            sql, values = f"{sql} AND key = ?", (*values, key)
        self._connection.execute(f"DELETE FROM kv WHERE {sql}", values)
        return self._connection.changes()

    def count(self, instance: str, namespace: str | None = None, where: Clause = ("1", ())) -> int:
        sql, values = _select_scope(instance, namespace)
        query = f"SELECT count(*) FROM kv WHERE {sql} AND {where[0]}"
        return int(self._connection.execute(query, (*values, *where[1])).get)

    def select(
        self,
        instance: str,
        namespace: str | None,
        where: Clause,
        order: str,
        window: tuple[int, int],
    ) -> Iterator[Pair]:
        """Yield pairs. `order` is SQL, `window` is (limit, offset)."""
        sql, values = _select_scope(instance, namespace)
        query = (
            f"SELECT {PAIR_COLUMNS} FROM kv WHERE {sql} AND {where[0]} "
            f"ORDER BY {order} LIMIT ? OFFSET ?"
        )
        rows = self._connection.execute(query, (*values, *where[1], *window))
        return map(Pair._make, rows)

    def namespaces(self, instance: str, most: int) -> list[str]:
        """Return the namespaces in order of their names."""
        return [name for (name,) in self._connection.execute(NAMESPACES, (instance, most))]


def _select_scope(instance: str, namespace: str | None) -> tuple[str, tuple[Any, ...]]:
    if namespace is None:
        return "instance = ?", (instance,)
    return "instance = ? AND namespace = ?", (instance, namespace)


class Event(NamedTuple):
    """A row. `payload` and `metadata` are JSON, `at` is Unix ms."""

    id: str
    stream: str
    sequence: int
    type: str
    payload: str
    metadata: str
    at: int


class EventTable:
    """Reads and appends events inside the store's open transaction."""

    def __init__(self, connection: apsw.Connection, records: RecordTable) -> None:
        self._connection, self._records = connection, records

    def append(self, instance: str, events: Sequence[Event]) -> None:
        """Append events. Raises PolicyStop."""
        if self._records.path.admit_texts:
            events = [self._admit(instance, event) for event in events]
        self._connection.executemany(INSERT_EVENT, [(instance, *event) for event in events])

    def _admit(self, instance: str, event: Event) -> Event:
        """Return an event as the policies of the store let it in."""
        records = self._records
        admit_names(records, "event", (instance, event.id, event.stream, event.type))
        return event._replace(
            payload=admit_json(records, "event", event.payload),
            metadata=admit_json(records, "event", event.metadata),
        )

    def last_sequence(self, instance: str, stream: str) -> int:
        """Return the sequence of the last event of a stream, 0 for none."""
        return int(self._connection.execute(LAST_SEQUENCE, (instance, stream)).get)

    def delete(self, instance: str) -> None:
        self._connection.execute("DELETE FROM events WHERE instance = ?", (instance,))

    def count(self, instance: str, where: Clause = ("1", ())) -> int:
        query = f"SELECT count(*) FROM events WHERE instance = ? AND {where[0]}"
        return int(self._connection.execute(query, (instance, *where[1])).get)

    def select(
        self,
        instance: str,
        where: Clause,
        window: tuple[int, int],
        order: Clause = (NEWEST_FIRST, ()),
    ) -> Iterator[Event]:
        """Yield events. `window` is (limit, offset)."""
        query = (
            f"SELECT {EVENT_COLUMNS} FROM events WHERE instance = ? AND {where[0]} "
            f"ORDER BY {order[0]} LIMIT ? OFFSET ?"
        )
        values = (instance, *where[1], *order[1], *window)
        return map(Event._make, self._connection.execute(query, values))

    def rows(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        return list(self._connection.execute(sql, values))

    def streams(self, instance: str, most: int) -> list[str]:
        """Return the streams in order of their names."""
        return [name for (name,) in self._connection.execute(STREAMS, (instance, most))]


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


def make_node_scope(instance: str) -> str:
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
        values = [make_node_scope(instance), after, *([kind] if kind else []), limit]
        return stored_records(self._connection, clauses, values)

    def first_nodes(self, instance: str, limit: int) -> Iterator[StoredRecord]:
        """Yield the first nodes that were added."""
        self._records.flush()
        clauses = f"{BY_ID} ORDER BY r.row LIMIT ?"
        return stored_records(self._connection, clauses, [make_node_scope(instance), limit])

    def count_nodes(self, instance: str, kind: str = "") -> int:
        """Return the number of nodes of a graph. A kind of "" is any kind."""
        self._records.flush()
        source = f"{BY_NODE_KIND}{IS_OF_KIND}" if kind else BY_ID
        values = [make_node_scope(instance), *([kind] if kind else [])]
        return self._count(f"records AS r{source}", values)

    def node_kinds(self, instance: str, ids: Iterable[str]) -> dict[str, str]:
        """Return the kind of each of these nodes that exists, by id."""
        self._records.flush()
        rows = self._connection.execute(
            "SELECT r.key, json_extract(r.data, '$.kind') FROM json_each(?1) AS wanted "
            f"CROSS JOIN records AS r INDEXED BY recipe_keys ON {IS_NODE.replace('?', '?2')} "
            "AND r.key = wanted.value",
            (_json(ids), make_node_scope(instance)),
        )
        return dict(rows)

    def insert_edges(self, instance: str, edges: Sequence[Edge]) -> None:
        """Insert edges whose ids are free. Raises PolicyStop."""
        if self._records.path.admit_texts:
            names = [value for edge in edges for value in edge[:4]]
            admit_names(self._records, "edge", (instance, *names))
        for first in range(0, len(edges), TOGETHER):
            some = edges[first : first + TOGETHER]
            rows = ", ".join(["(?, ?, ?, ?, ?, ?)"] * len(some))
            values = [value for edge in some for value in (instance, *edge)]
            self._connection.execute(INSERT_EDGES + rows, values)

    def taken_edges(self, instance: str, ids: Iterable[str]) -> list[str]:
        """Return the ids among these that edges of a graph have."""
        rows = self._connection.execute(
            "SELECT id FROM edges WHERE instance = ? AND id IN (SELECT value FROM json_each(?))",
            (instance, _json(ids)),
        )
        return [id_ for (id_,) in rows]

    def edge(self, instance: str, id_: str) -> Edge | None:
        query = f"SELECT {EDGE} FROM edges WHERE instance = ? AND id = ?"
        row = self._connection.execute(query, (instance, id_)).fetchone()
        return None if row is None else Edge._make(row)

    def edges(self, instance: str, filters: EdgeFilter, limit: int) -> Iterator[tuple[int, Edge]]:
        """Yield (row, edge) of matching edges in the order in which they were added."""
        where, values = _edge_conditions(instance, filters)
        rows = self._connection.execute(
            f"SELECT row, {EDGE} FROM edges{where} ORDER BY row LIMIT ?", (*values, limit)
        )
        return ((row, Edge._make(edge)) for row, *edge in rows)

    def count_edges(self, instance: str, filters: EdgeFilter = ALL_EDGES) -> int:
        where, values = _edge_conditions(instance, filters._replace(after_row=0))
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
        rows = self._connection.execute(f"{query} ORDER BY row", values)
        return (Edge._make(edge) for _, *edge in rows)

    def edges_between(self, instance: str, nodes: Iterable[str], limit: int) -> list[Edge]:
        """Return the first edges that both begin and end at one of these nodes."""
        rows = self._connection.execute(EDGES_BETWEEN, (instance, _json(nodes), limit))
        return [Edge._make(edge) for edge in rows]

    def all_edges(self, instance: str) -> Iterator[Edge]:
        """Yield the edges of a graph in the order in which they were added."""
        query = f"SELECT {EDGE} FROM edges WHERE instance = ? ORDER BY row"
        return map(Edge._make, self._connection.execute(query, (instance,)))

    def edges_touching(self, instance: str, nodes: Iterable[str]) -> Iterator[Edge]:
        """Yield the edges that begin or end at one of these nodes, in the order of addition."""
        rows = self._connection.execute(EDGES_TOUCHING, (instance, _json(nodes)))
        return (Edge._make(edge) for _, *edge in rows)

    def equal_edges(self, instance: str, edges: Iterable[EdgeValues]) -> Iterator[Edge]:
        """Yield the edges that have the kind and the nodes of one of `edges`."""
        values = orjson.dumps([*edges]).decode()
        return map(Edge._make, self._connection.execute(EQUAL_EDGES, (instance, values)))

    def places(self, instance: str, ids: Iterable[str]) -> Iterator[StoredRecord]:
        """Yield the nodes with these ids, in the order in which they were added."""
        self._records.flush()
        clauses = f"{BY_ID} AND r.key IN (SELECT value FROM json_each(?)) ORDER BY r.row"
        return stored_records(self._connection, clauses, [make_node_scope(instance), _json(ids)])

    def delete_edge(self, instance: str, id_: str) -> None:
        self._connection.execute("DELETE FROM edges WHERE instance = ? AND id = ?", (instance, id_))

    def delete_edges_at(self, instance: str, node: str) -> None:
        for side in ("from_node", "to_node"):
            query = f"DELETE FROM edges WHERE instance = ? AND {side} = ?"
            self._connection.execute(query, (instance, node))

    def delete_rows(self, instance: str) -> None:
        """Delete all edges and views of a graph."""
        for table in ("edges", "views"):
            self._connection.execute(f"DELETE FROM {table} WHERE instance = ?", (instance,))

    def insert_view(self, view: View) -> None:
        """Insert a view whose id is free. Raises PolicyStop."""
        admit_names(self._records, "view", view[:3])
        self._connection.execute(f"INSERT INTO views({VIEW}) VALUES (?, ?, ?, ?)", view)

    def view(self, id_: str) -> View | None:
        rows = self._connection.execute(f"SELECT {VIEW} FROM views WHERE id = ?", (id_,))
        return next((View._make(row) for row in rows), None)

    def views(self, *, template: str = "", instance: str = "") -> list[View]:
        """Return views, the newest first. "" is any template or instance."""
        rows = self._connection.execute(
            f"SELECT {VIEW} FROM views WHERE ?1 IN ('', template) AND ?2 IN ('', instance) "
            "ORDER BY created_at DESC, id",
            (template, instance),
        )
        return [View._make(row) for row in rows]

    def delete_view(self, id_: str) -> None:
        self._connection.execute("DELETE FROM views WHERE id = ?", (id_,))

    def rows(self, query: str, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        self._records.flush()
        return iter(self._connection.execute(query, values))

    def _count(self, source: str, values: Sequence[Any]) -> int:
        return int(self._connection.execute(f"SELECT count(*) FROM {source}", values).get)


def _json(texts: Iterable[str]) -> str:
    return orjson.dumps([*texts]).decode()


def _edge_conditions(instance: str, filters: EdgeFilter) -> tuple[str, list[Any]]:
    where, values = " WHERE instance = ? AND row > ?", [instance, filters.after_row]
    for column in ("kind", "from_node", "to_node"):
        if value := getattr(filters, column):
            where += f" AND {column} = ?"
            values.append(value)
    return where, values


DELETE_EDGES = "DELETE FROM edges WHERE instance = ?1 AND (from_node = ?2 OR to_node = ?2)"


class EdgeErasure(ModelErasure):
    def forget_record(self, record: State) -> None:
        if record.kind == NODE_KIND:
            instance = record.scope.removeprefix("graph/")
            self._connection.execute(DELETE_EDGES, (instance, record.key))
