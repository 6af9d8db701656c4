"""graph.add_nodes: adds nodes to a graph."""

from dataclasses import dataclass
from itertools import chain, islice
from typing import Annotated, Any

from pydantic import Field

from memrelay.memory.engine.store import Transaction
from memrelay.memory.errors import RecordNotFound
from memrelay.memory.models.recipes.faults import FaultList
from memrelay.memory.models.recipes.graph.edges import (
    EdgeView,
    NewEdge,
    add_edges,
    check_kind_change,
    view_edge,
)
from memrelay.memory.models.recipes.graph.expansion import Direction, Walk, walk
from memrelay.memory.models.recipes.graph.instances import find_graph
from memrelay.memory.models.recipes.graph.names import SearchId
from memrelay.memory.models.recipes.graph.nodes import (
    MOST_ADDED,
    NewNode,
    NodeName,
    NodeView,
    Time,
    add_nodes,
    check_node,
    find_node,
    view_node,
    with_values,
)
from memrelay.memory.models.recipes.graph.table import EdgeFilter
from memrelay.memory.models.recipes.graph.views import limited
from memrelay.memory.models.recipes.instances import find_id
from memrelay.memory.models.recipes.records import RecipeTables
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.reading import Limit, parse_cursor, take_page
from memrelay.memory.records.view import Reason, Versions
from memrelay.memory.records.writing import check_version

OptionalText = Annotated[str, Field(max_length=128)]
# Edges of an answer.
MOST_EDGES = 10_000
# A distance that no graph reaches.
ANY_DISTANCE = 1 << 62


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


@operation("graph.add_nodes", access="write", mutates=True, home="recipes")
def create_nodes(tx: Transaction, given: AddNodes, context: Context) -> AddedNodes:
    """Add nodes to a graph: all, or none if one is invalid.

    Raises RecordNotFound: when the graph does not exist.
    Raises InvalidInput: when nodes are invalid or do not fit the template of the graph.
    Raises NameTaken: when the graph already has a node with one of the ids.
    """
    graph = find_graph(tx, given.instance)
    added = add_nodes(tx, graph, given.nodes, context)
    ids = [state.key for state in added]
    tx.feed.add("node.added" if len(ids) == 1 else "nodes.added", graph.id, {"ids": ids})
    return AddedNodes(tuple(map(view_node, added)))


@dataclass(frozen=True, slots=True)
class GetNode:
    """The node to read."""

    instance: SearchId
    """The id or name of the graph."""
    id: SearchId
    """The id of the node."""


@operation("graph.get_node", access="read", mutates=False, home="recipes")
def get_node(tx: Transaction, wanted: GetNode, context: Context) -> NodeView:
    """Return a node.

    Raises RecordNotFound: when the graph or the node does not exist.
    """
    return view_node(find_node(tx, find_id(tx, "graph", wanted.instance), wanted.id).state)


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


@operation("graph.list_nodes", access="read", mutates=False, home="recipes")
def list_nodes(tx: Transaction, wanted: ListNodes, context: Context) -> NodePage:
    """List the nodes of a graph by id, in pages.

    Raises RecordNotFound: when the graph does not exist.
    """
    graph, table = find_id(tx, "graph", wanted.instance), tx.table(RecipeTables).graph
    places = table.nodes(graph, wanted.kind, wanted.cursor, wanted.limit + 1)
    found = (view_node(place.state) for place in places)
    items, has_more = take_page(found, wanted.limit, context.result_bytes)
    total = table.count_nodes(graph, wanted.kind)
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


@operation("graph.update_node", access="write", mutates=True, home="recipes")
def update_node(tx: Transaction, change: UpdateNode, context: Context) -> NodeView:
    """Change the given fields of a node.

    Raises RecordNotFound: when the graph or the node does not exist.
    Raises VersionConflict: when the node has another version.
    Raises InvalidInput: when the node is invalid, or the node or one of its edges would not fit
    the template of the graph.
    """
    graph = find_graph(tx, change.instance)
    place = find_node(tx, graph.id, change.id)
    before = view_node(place.state)
    check_version(place.state.record, place.state.extras, change.if_version)
    given: dict[str, Any] = {
        name: value
        for name in ("name", "kind", "attributes", "valid_from", "valid_to")
        if (value := getattr(change, name)) is not None
    }
    kept: dict[str, Any] = {name: getattr(before, name) for name in ("name", "kind", "attributes")}
    kept |= {"valid_from": before.valid_from, "valid_to": before.valid_to}
    # An empty time removes the time.
    values = {name: None if value == "" else value for name, value in given.items()}
    after = NewNode(**(kept | values))
    faults = FaultList()
    check_node(after, graph, (), faults)
    faults.raise_any("the node")
    if after.kind != before.kind:
        check_kind_change(tx, graph, change.id, after.kind)
    state = with_values(place.state, after)
    return view_node(
        place.state if state == place.state else tx.table(RecipeTables).nodes.change(place, state)
    )


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


@operation("graph.delete_node", access="delete", mutates=True, home="recipes")
def delete_node(tx: Transaction, target: DeleteNode, context: Context) -> None:
    """Delete a node and its edges.

    Raises RecordNotFound: when the graph or the node does not exist.
    Raises VersionConflict: when the node has another version.
    """
    graph = find_id(tx, "graph", target.instance)
    place = find_node(tx, graph, target.id)
    check_version(place.state.record, place.state.extras, target.if_version)
    tx.table(RecipeTables).graph.delete_edges_at(graph, target.id)
    tx.records.delete(place)


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


@operation("graph.add_edges", access="write", mutates=True, home="recipes")
def create_edges(tx: Transaction, given: AddEdges, context: Context) -> AddedEdges:
    """Add edges to a graph: all, or none if one is invalid.

    Raises RecordNotFound: when the graph does not exist.
    Raises InvalidInput: when a node does not exist, or edges do not fit the template of the graph.
    Raises NameTaken: when the graph already has an edge with one of the ids.
    """
    graph = find_graph(tx, given.instance)
    added = add_edges(tx, graph, given.edges, context)
    ids = [edge.id for edge in added]
    tx.feed.add("edge.added" if len(ids) == 1 else "edges.added", graph.id, {"ids": ids})
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


@operation("graph.list_edges", access="read", mutates=False, home="recipes")
def list_edges(tx: Transaction, wanted: ListEdges, context: Context) -> EdgePage:
    """List the edges of a graph in the order in which they were added, in pages.

    Raises RecordNotFound: when the graph does not exist.
    Raises Refused: when the cursor is invalid.
    """
    graph, table = find_id(tx, "graph", wanted.instance), tx.table(RecipeTables).graph
    after = parse_cursor(wanted.cursor) or 0
    matching = EdgeFilter(wanted.kind, wanted.from_node_id, wanted.to_node_id, after)
    edges = table.edges(graph, matching, wanted.limit + 1)
    found = ((row, view_edge(graph, edge)) for row, edge in edges)
    rows, has_more = take_page(found, wanted.limit, context.result_bytes)
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


@operation("graph.delete_edge", access="delete", mutates=True, home="recipes")
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
    tx.feed.add("edge.deleted", graph, {"id": edge.id, "kind": edge.kind, **ends})


@dataclass(frozen=True, slots=True)
class GetSubgraph:
    """The part of a graph to read."""

    instance: SearchId
    """The id or name of the graph."""
    seed_node_id: Annotated[str, Field(max_length=128)] = ""
    """Begin at this node and add the nearest ones. By default the nodes that were added first."""
    limit: Limit = 100
    """The maximum number of nodes. A part with long nodes may have fewer."""


@dataclass(frozen=True, slots=True)
class GraphCounts:
    """The numbers of nodes and edges."""

    nodes: int
    edges: int


@dataclass(frozen=True, slots=True)
class Subgraph:
    """A part of a graph."""

    nodes: tuple[NodeView, ...]
    edges: tuple[EdgeView, ...]
    """The edges between these nodes, at most 10,000."""
    total_counts: GraphCounts
    """The nodes and edges of the whole graph."""
    has_more: bool
    """Whether the limit left out nodes or edges."""


@operation("graph.subgraph", access="read", mutates=False, home="recipes")
def subgraph(tx: Transaction, wanted: GetSubgraph, context: Context) -> Subgraph:
    """Return nodes of a graph and the edges between them.

    Raises RecordNotFound: when the graph or the seed does not exist.
    Raises SearchTooLong: when the read exceeds its time limit.
    """
    graph, table = find_id(tx, "graph", wanted.instance), tx.table(RecipeTables).graph
    with limited(tx, "the subgraph"):
        if wanted.seed_node_id:
            seed = find_node(tx, graph, wanted.seed_node_id).state
            steps = walk(tx, graph, [wanted.seed_node_id], Walk(depth=ANY_DISTANCE))
            states = chain([seed], (step.state for step in steps))
        else:
            places = table.first_nodes(graph, wanted.limit + 1)
            states = chain(place.state for place in places)
        found = map(view_node, islice(states, wanted.limit + 1))
        nodes, has_more = take_page(found, wanted.limit, context.result_bytes // 2)
        edges = table.edges_between(graph, [node.id for node in nodes], MOST_EDGES + 1)
        views = (view_edge(graph, edge) for edge in edges)
        kept, has_more_edges = take_page(views, MOST_EDGES, context.result_bytes // 2)
        counts = GraphCounts(table.count_nodes(graph), table.count_edges(graph))
    return Subgraph(tuple(nodes), tuple(kept), counts, has_more or has_more_edges)


@dataclass(frozen=True, slots=True)
class ExpandNode:
    """The node whose neighbors to read."""

    instance: SearchId
    """The id or name of the graph."""
    node_id: SearchId
    """The id of the node."""
    direction: Direction = "both"
    """The direction of the edges from the node: outgoing, incoming or both."""
    limit: Limit = 100
    """The maximum number of neighbors."""
    exclude_node_ids: Annotated[tuple[SearchId, ...], Field(max_length=10_000)] = ()
    """Nodes to leave out, which the caller has already."""


@operation("graph.expand", access="read", mutates=False, home="recipes")
def expand(tx: Transaction, wanted: ExpandNode, context: Context) -> Subgraph:
    """Return the neighbors of a node, in the order of its edges, and its edges to them.

    `total_counts` has all neighbors and edges of the node in this direction.

    Raises RecordNotFound: when the graph or the node does not exist.
    Raises SearchTooLong: when the read exceeds its time limit.
    """
    graph, table = find_id(tx, "graph", wanted.instance), tx.table(RecipeTables).graph
    find_node(tx, graph, wanted.node_id)
    how = Walk(direction=wanted.direction)
    with limited(tx, "the expansion"):
        steps = walk(tx, graph, [wanted.node_id], how, wanted.exclude_node_ids)
        found = (view_node(step.state) for step in islice(steps, wanted.limit + 1))
        nodes, has_more = take_page(found, wanted.limit, context.result_bytes // 2)
        ids = {node.id for node in nodes}
        neighbors, of_nodes, count = set[str](), [], 0
        for edge in table.edges_at(graph, wanted.node_id, wanted.direction):
            other = edge.to_node if edge.from_node == wanted.node_id else edge.from_node
            neighbors.add(other)
            count += 1
            if other in ids:
                of_nodes.append(view_edge(graph, edge))
        kept, has_more_edges = take_page(of_nodes, MOST_EDGES, context.result_bytes // 2)
    counts = GraphCounts(len(neighbors - {wanted.node_id}), count)
    return Subgraph(tuple(nodes), tuple(kept), counts, has_more or has_more_edges)
