"""Graphs: nodes, and the directed edges between them.

A node is a record of kind `recipe.node`, whose content is its name and text attributes. Edges are
in the order in which they were added. Equal edges may repeat.
"""

from dataclasses import dataclass, field
from typing import Annotated, Any

import orjson
from pydantic import Field, ValidationError

from memrelay.memory.engine.keyed_table import new_state
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment, format_time, parse_ms
from memrelay.memory.engine.versions import State, StoredRecord
from memrelay.memory.errors import NameTaken, RecordNotFound
from memrelay.memory.field_descriptions import nested_input
from memrelay.memory.models.recipes import NODE_KIND
from memrelay.memory.models.recipes.faults import FaultList
from memrelay.memory.models.recipes.graph.names import (
    MOST_ADDED,
    SearchId,
    check_name,
    refuse_taken,
)
from memrelay.memory.models.recipes.instances import Graph, find_graph, find_id
from memrelay.memory.models.recipes.keyed_kind import view_edits
from memrelay.memory.models.recipes.table import Edge, EdgeFilter, RecipeTables, make_node_scope
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.data import checked, load_json
from memrelay.memory.records.optimistic_locking import check_version
from memrelay.memory.records.paging import Limit, parse_cursor, take_page
from memrelay.memory.records.view import Reason, Versions
from memrelay.memory.validation import Place

MAX_NAME_CHARACTERS = 1024
NodeName = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARACTERS)]
Time = Annotated[str, Field(max_length=40)]
# The id and name of the graph.
ENTITY_GRAPH = "mcp"
# The attribute of a node, and the key in `data` of their lengths.
OBSERVATIONS = "observations"


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node."""

    id: str
    instance_id: str
    """The id of the graph."""
    name: str
    kind: str
    attributes: dict[str, Any]
    valid_from: str | None
    valid_to: str | None
    created_at: Moment
    updated_at: Moment
    version: str
    """Changes with every write; a write can require it."""


@nested_input
@dataclass(frozen=True, slots=True)
class NewNode:
    """A node to add."""

    name: NodeName
    """The name."""
    kind: str
    """The kind, which the template of the graph may restrict."""
    id: str = ""
    """The id, unique within the graph. By default generated."""
    attributes: dict[str, Any] = field(default_factory=dict)
    """Further values: any JSON object."""
    valid_from: Time | None = None
    """The date or time from which the node is valid. It is only stored."""
    valid_to: Time | None = None
    """The date or time until which the node is valid. It is only stored."""


@dataclass(frozen=True, slots=True)
class AddNodes:
    """The nodes to add: all or none."""

    instance: SearchId
    """The id or name of the graph."""
    nodes: Annotated[tuple[NewNode, ...], Field(min_length=1, max_length=MOST_ADDED)]
    """The nodes, at most 1,000."""


@dataclass(frozen=True, slots=True)
class AddedNodes:
    """The added nodes."""

    items: tuple[NodeView, ...]


@operation("graph.add_nodes", access="write", mutates=True, store="recipes")
def create_nodes(tx: Transaction, new: AddNodes, context: Context) -> AddedNodes:
    """Add nodes to a graph: all, or none if one is invalid.

    Raises RecordNotFound: when the graph does not exist.
    Raises InvalidInput: when nodes are invalid or do not fit the template of the graph.
    Raises NameTaken: when the graph already has a node with one of the ids.
    """
    graph = find_graph(tx, new.instance)
    faults = FaultList()
    for at, node in enumerate(new.nodes):
        check_node(node, graph, ("nodes", at), faults)
        if node.id:
            check_name(node.id, ("nodes", at, "id"), faults)
    faults.raise_any("the input")
    refuse_taken(node.id for node in new.nodes)
    new_ids = [node.id for node in new.nodes if node.id]
    if taken := tx.table(RecipeTables).graph.node_kinds(graph.id, new_ids):
        raise NameTaken(f"graph {graph.id!r} already has the nodes {', '.join([*taken][:5])}")
    added = [insert_node(tx, graph.id, node, context) for node in new.nodes]
    ids = [state.key for state in added]
    tx.records.announce("node.added" if len(ids) == 1 else "nodes.added", graph.id, {"ids": ids})
    return AddedNodes(tuple(map(view_node, added)))


@dataclass(frozen=True, slots=True)
class GetNode:
    """The node to read."""

    instance: SearchId
    """The id or name of the graph."""
    id: SearchId
    """The id of the node."""


@operation("graph.get_node", access="read", mutates=False, store="recipes")
def get_node(tx: Transaction, query: GetNode, context: Context) -> NodeView:
    """Return a node.

    Raises RecordNotFound: when the graph or the node does not exist.
    """
    return view_node(find_node(tx, find_id(tx, "graph", query.instance), query.id).state)


@dataclass(frozen=True, slots=True)
class ListNodes:
    """The nodes to list, and the page."""

    instance: SearchId
    """The id or name of the graph."""
    kind: Annotated[str, Field(max_length=128)] = ""
    """Only nodes of this kind."""
    limit: Limit = 100
    """The maximum number of nodes. A page of long nodes may have fewer."""
    cursor: Annotated[str, Field(max_length=128)] = ""
    """The `next_cursor` of the previous page: the id of its last node."""


@dataclass(frozen=True, slots=True)
class NodePage:
    """A page of nodes, by id."""

    items: tuple[NodeView, ...]
    next_cursor: str | None
    """The cursor of the next page; null on the last page."""
    total: int
    """The number of nodes on all pages."""


@operation("graph.list_nodes", access="read", mutates=False, store="recipes")
def list_nodes(tx: Transaction, query: ListNodes, context: Context) -> NodePage:
    """List the nodes of a graph by id, in pages.

    Raises RecordNotFound: when the graph does not exist.
    """
    graph, table = find_id(tx, "graph", query.instance), tx.table(RecipeTables).graph
    nodes = table.nodes(graph, query.kind, query.cursor, query.limit + 1)
    views = (view_node(stored.state) for stored in nodes)
    items, has_more = take_page(views, query.limit, context.result_bytes)
    total = table.count_nodes(graph, query.kind)
    return NodePage(tuple(items), items[-1].id if has_more else None, total)


@dataclass(frozen=True, slots=True)
class UpdateNode:
    """The changes of a node. Omitted fields keep their values."""

    instance: SearchId
    """The id or name of the graph."""
    id: SearchId
    """The id of the node."""
    name: NodeName | None = None
    """The new name."""
    kind: Annotated[str, Field(min_length=1)] | None = None
    """The new kind."""
    attributes: dict[str, Any] | None = None
    """The new attributes; they replace all present ones."""
    valid_from: Time | None = None
    """The new time from which the node is valid; "" removes it."""
    valid_to: Time | None = None
    """The new time until which the node is valid; "" removes it."""
    if_version: Versions = ()
    """Change only if the node has one of these versions."""


@operation("graph.update_node", access="write", mutates=True, store="recipes")
def update_node(tx: Transaction, change: UpdateNode, context: Context) -> NodeView:
    """Change the given fields of a node.

    Raises RecordNotFound: when the graph or the node does not exist.
    Raises VersionConflict: when the node has another version.
    Raises InvalidInput: when the node is invalid, or the node or one of its edges would not fit
    the template of the graph.
    """
    graph = find_graph(tx, change.instance)
    stored = find_node(tx, graph.id, change.id)
    before = view_node(stored.state)
    check_version(stored.state.record, stored.state.extras, change.if_version)
    fields = dict[str, Any]()
    for name in ("name", "kind", "attributes", "valid_from", "valid_to"):
        new, old = getattr(change, name), getattr(before, name)
        fields[name] = old if new is None else new
    # An empty time removes the time.
    fields["valid_from"] = fields["valid_from"] or None
    fields["valid_to"] = fields["valid_to"] or None
    after = NewNode(**fields)
    faults = FaultList()
    check_node(after, graph, (), faults)
    faults.raise_any("the node")
    if after.kind != before.kind:
        check_kind_change(tx, graph, change.id, after.kind)
    state = with_values(stored.state, after)
    if state != stored.state:
        state = tx.table(RecipeTables).nodes.change(stored, state)
    return view_node(state)


@dataclass(frozen=True, slots=True)
class DeleteNode:
    """The node to delete."""

    instance: SearchId
    """The id or name of the graph."""
    id: SearchId
    """The id of the node."""
    reason: Reason = ""
    """The reason, kept in the history."""
    if_version: Versions = ()
    """Delete only if the node has one of these versions."""


@operation("graph.delete_node", access="delete", mutates=True, store="recipes")
def delete_node(tx: Transaction, target: DeleteNode, context: Context) -> None:
    """Delete a node and its edges.

    Raises RecordNotFound: when the graph or the node does not exist.
    Raises VersionConflict: when the node has another version.
    """
    graph = find_id(tx, "graph", target.instance)
    stored = find_node(tx, graph, target.id)
    check_version(stored.state.record, stored.state.extras, target.if_version)
    tx.table(RecipeTables).graph.delete_edges_at(graph, target.id)
    tx.records.delete(stored)


def view_node(state: State) -> NodeView:
    """Return the view of a stored node. Raises RecordDamaged."""
    data = load_json(state.data or "{}", state.guid)
    attributes = data["attributes"]
    if OBSERVATIONS in data:
        attributes = attributes | {OBSERVATIONS: read_observations(data, state.content)}
    return NodeView(
        state.key or "",
        _parse_instance(state),
        data["name"],
        data["kind"],
        attributes,
        data["valid_from"],
        data["valid_to"],
        **view_edits(state),
    )


def find_node(tx: Transaction, instance: str, id_: str) -> StoredRecord:
    """Return a stored node. Raises RecordNotFound."""
    stored = tx.table(RecipeTables).nodes.find(make_node_scope(instance), id_)
    if stored is None:
        raise RecordNotFound(f"graph {instance!r} has no node {id_!r}; list its nodes")
    return stored


def check_node(node: NewNode, graph: Graph, path: Place, faults: FaultList) -> None:
    """Add a fault for each rule that a node breaks."""
    for side in ("valid_from", "valid_to"):
        value = getattr(node, side)
        if value is not None and parse_ms(value) is None:
            faults.add((*path, side), "bad_type", "is a time like 2026-11-22T05:00:00Z, or null")
    try:
        checked(_make_data(node, graph.id))
    except ValidationError as error:
        for fault in error.errors(include_input=False, include_url=False):
            faults.add((*path, *(fault["loc"] or ("attributes",))), "bad_type", fault["msg"])
        return
    if check_name(node.kind, (*path, "kind"), faults) and graph.template is not None:
        graph.template.check_node(node.kind, node.attributes, path, faults)


def insert_node(tx: Transaction, instance: str, node: NewNode, context: Context) -> State:
    """Insert a valid node whose id is free, and return it as stored."""
    state = new_state(context.new_guid(), NODE_KIND, context.now_ms, context.actor)
    placed = state._replace(scope=make_node_scope(instance), key=node.id or state.guid)
    return tx.table(RecipeTables).nodes.insert(with_values(placed, node))


def with_values(state: State, node: NewNode) -> State:
    """Return the state of a record with the values of a node."""
    instance = _parse_instance(state)
    attributes, observations = split_observations(instance, node.attributes)
    texts = [value for value in attributes.values() if isinstance(value, str)]
    data = orjson.dumps(_make_data(node, instance)).decode()
    return state._replace(content="\n".join([node.name, *texts, *observations]), data=data)


def _parse_instance(state: State) -> str:
    return state.scope.removeprefix("graph/")


def _make_data(node: NewNode, instance: str) -> dict[str, Any]:
    attributes, observations = split_observations(instance, node.attributes)
    data = {
        "name": node.name,
        "kind": node.kind,
        "attributes": attributes,
        "valid_from": node.valid_from,
        "valid_to": node.valid_to,
    }
    return data | ({OBSERVATIONS: [*map(len, observations)]} if observations else {})


def split_observations(
    instance: str, attributes: dict[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Return the attributes that `data` keeps, and the observations that the content keeps."""
    observations = attributes.get(OBSERVATIONS)
    if instance != ENTITY_GRAPH or not isinstance(observations, list):
        return attributes, []
    if not all(isinstance(one, str) for one in observations):
        return attributes, []
    return {name: attributes[name] for name in attributes if name != OBSERVATIONS}, [*observations]


def read_observations(data: dict[str, Any], content: str) -> list[str]:
    """Return the observations of a stored node."""
    lengths: list[int] = data.get(OBSERVATIONS, [])
    # A line break is before each of them.
    at, observations = len(content) - sum(lengths) - len(lengths), list[str]()
    for length in lengths:
        observations.append(content[at + 1 : at + 1 + length])
        at += 1 + length
    return observations


OptionalText = Annotated[str, Field(max_length=128)]


@dataclass(frozen=True, slots=True)
class EdgeView:
    """An edge."""

    id: str
    instance_id: str
    """The id of the graph."""
    kind: str
    from_node_id: str
    to_node_id: str
    created_at: Moment


@nested_input
@dataclass(frozen=True, slots=True)
class NewEdge:
    """An edge to add."""

    kind: str
    """The kind, which the template of the graph may restrict."""
    from_node_id: str
    """The id of the node at which the edge begins."""
    to_node_id: str
    """The id of the node at which the edge ends."""
    id: str = ""
    """The id, unique within the graph. By default generated."""


@dataclass(frozen=True, slots=True)
class AddEdges:
    """The edges to add: all or none."""

    instance: SearchId
    """The id or name of the graph."""
    edges: Annotated[tuple[NewEdge, ...], Field(min_length=1, max_length=MOST_ADDED)]
    """The edges, at most 1,000. Their nodes exist."""


@dataclass(frozen=True, slots=True)
class AddedEdges:
    """The added edges."""

    items: tuple[EdgeView, ...]


@operation("graph.add_edges", access="write", mutates=True, store="recipes")
def create_edges(tx: Transaction, new: AddEdges, context: Context) -> AddedEdges:
    """Add edges to a graph: all, or none if one is invalid.

    Raises RecordNotFound: when the graph does not exist.
    Raises InvalidInput: when a node does not exist, or edges do not fit the template of the graph.
    Raises NameTaken: when the graph already has an edge with one of the ids.
    """
    graph, table = find_graph(tx, new.instance), tx.table(RecipeTables).graph
    faults = FaultList()
    ends = {id_ for edge in new.edges for id_ in (edge.from_node_id, edge.to_node_id)}
    kinds = table.node_kinds(graph.id, ends)
    for at, edge in enumerate(new.edges):
        _check_edge(edge, graph, kinds, (("edges", at), faults))
    faults.raise_any("the input")
    refuse_taken(edge.id for edge in new.edges)
    new_ids = [edge.id for edge in new.edges if edge.id]
    if taken := table.taken_edges(graph.id, new_ids):
        raise NameTaken(f"graph {graph.id!r} already has the edges {', '.join(taken[:5])}")
    added = [
        Edge(
            edge.id or context.new_guid(),
            edge.kind,
            edge.from_node_id,
            edge.to_node_id,
            context.now_ms,
        )
        for edge in new.edges
    ]
    table.insert_edges(graph.id, added)
    ids = [edge.id for edge in added]
    tx.records.announce("edge.added" if len(ids) == 1 else "edges.added", graph.id, {"ids": ids})
    return AddedEdges(tuple(view_edge(graph.id, edge) for edge in added))


@dataclass(frozen=True, slots=True)
class ListEdges:
    """The edges to list, and the page."""

    instance: SearchId
    """The id or name of the graph."""
    kind: OptionalText = ""
    """Only edges of this kind."""
    from_node_id: OptionalText = ""
    """Only edges that begin at this node."""
    to_node_id: OptionalText = ""
    """Only edges that end at this node."""
    limit: Limit = 100
    """The maximum number of edges."""
    cursor: Annotated[str, Field(max_length=20)] = ""
    """The `next_cursor` of the previous page."""


@dataclass(frozen=True, slots=True)
class EdgePage:
    """A page of edges, in the order in which they were added."""

    items: tuple[EdgeView, ...]
    next_cursor: str | None
    """The cursor of the next page; null on the last page."""
    total: int
    """The number of edges on all pages."""


@operation("graph.list_edges", access="read", mutates=False, store="recipes")
def list_edges(tx: Transaction, query: ListEdges, context: Context) -> EdgePage:
    """List the edges of a graph in the order in which they were added, in pages.

    Raises RecordNotFound: when the graph does not exist.
    Raises Refused: when the cursor is invalid.
    """
    graph, table = find_id(tx, "graph", query.instance), tx.table(RecipeTables).graph
    after = parse_cursor(query.cursor) or 0
    matching = EdgeFilter(query.kind, query.from_node_id, query.to_node_id, after)
    edges = table.edges(graph, matching, query.limit + 1)
    views = ((row, view_edge(graph, edge)) for row, edge in edges)
    rows, has_more = take_page(views, query.limit, context.result_bytes)
    return EdgePage(
        tuple(edge for _, edge in rows),
        str(rows[-1][0]) if has_more else None,
        table.count_edges(graph, matching),
    )


@dataclass(frozen=True, slots=True)
class DeleteEdge:
    """The edge to delete."""

    instance: SearchId
    """The id or name of the graph."""
    id: SearchId
    """The id of the edge."""


@operation("graph.delete_edge", access="delete", mutates=True, store="recipes")
def delete_edge(tx: Transaction, target: DeleteEdge, context: Context) -> None:
    """Delete an edge. Its nodes stay.

    Raises RecordNotFound: when the graph or the edge does not exist.
    """
    graph = find_id(tx, "graph", target.instance)
    edge = tx.table(RecipeTables).graph.edge(graph, target.id)
    if edge is None:
        raise RecordNotFound(f"graph {graph!r} has no edge {target.id!r}; list its edges")
    tx.table(RecipeTables).graph.delete_edge(graph, edge.id)
    ends = {"from_node_id": edge.from_node, "to_node_id": edge.to_node}
    tx.records.announce("edge.deleted", graph, {"id": edge.id, "kind": edge.kind, **ends})


def view_edge(instance: str, edge: Edge) -> EdgeView:
    return EdgeView(
        edge.id,
        instance,
        edge.kind,
        edge.from_node,
        edge.to_node,
        format_time(edge.created_at),
    )


def _check_edge(
    edge: NewEdge, graph: Graph, kinds: dict[str, str], to: tuple[Place, FaultList]
) -> None:
    path, faults = to
    if edge.id:
        check_name(edge.id, (*path, "id"), faults)
    is_whole = check_name(edge.kind, (*path, "kind"), faults)
    for side in ("from_node_id", "to_node_id"):
        if (node := getattr(edge, side)) not in kinds:
            faults.add((*path, side), "unknown_node", f"the graph has no node {node[:128]!r}")
            is_whole = False
    if is_whole and graph.template is not None:
        pair = (kinds[edge.from_node_id], kinds[edge.to_node_id])
        graph.template.check_edge(edge.kind, pair, path, faults)


def check_kind_change(tx: Transaction, graph: Graph, node: str, kind: str) -> None:
    """Raise InvalidInput if edges of a node do not fit the template once the node has a kind."""
    if graph.template is None:
        return
    faults = FaultList()
    edges = [*tx.table(RecipeTables).graph.edges_at(graph.id, node, "both")]
    ends = {id_ for edge in edges for id_ in (edge.from_node, edge.to_node)}
    kinds = tx.table(RecipeTables).graph.node_kinds(graph.id, ends) | {node: kind}
    for edge in edges:
        pair = (kinds.get(edge.from_node, ""), kinds.get(edge.to_node, ""))
        of_edge = FaultList()
        graph.template.check_edge(edge.kind, pair, (), of_edge)
        for fault in of_edge.found:
            faults.add(("kind",), "wrong_kind", f"edge {edge.id!r} does not fit: {fault.message}")
    faults.raise_any("the node")
