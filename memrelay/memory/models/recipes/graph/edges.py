"""Edges of graphs: directed, in the order in which they were added. Equal edges may repeat."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment, format_time
from memrelay.memory.errors import NameTaken, RecordNotFound
from memrelay.memory.models.recipes.faults import FaultList
from memrelay.memory.models.recipes.graph.names import (
    MOST_ADDED,
    NESTED_INPUT,
    SearchId,
    check_name,
    refuse_taken,
)
from memrelay.memory.models.recipes.instances import Graph, find_graph, find_id
from memrelay.memory.models.recipes.table import Edge, EdgeFilter, RecipeTables
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.paging import Limit, parse_cursor, take_page
from memrelay.memory.validation import Place

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


@dataclass(frozen=True, slots=True)
class NewEdge:
    """An edge to add."""

    __pydantic_config__: ClassVar[ConfigDict] = NESTED_INPUT

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
    tx.feed.add("edge.deleted", graph, {"id": edge.id, "kind": edge.kind, **ends})


def view_edge(instance: str, edge: Edge) -> EdgeView:
    """Return the view of an edge."""
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
