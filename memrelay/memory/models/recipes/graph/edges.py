"""Edges of graphs: directed, in the order in which they were added. Equal edges may repeat."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pydantic import ConfigDict

from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment, format_time
from memrelay.memory.errors import NameTaken
from memrelay.memory.models.recipes.faults import FaultList
from memrelay.memory.models.recipes.graph.instances import Graph
from memrelay.memory.models.recipes.graph.names import check_name
from memrelay.memory.models.recipes.graph.nodes import refuse_taken
from memrelay.memory.models.recipes.graph.table import Edge
from memrelay.memory.models.recipes.records import RecipeTables
from memrelay.memory.operations import Context
from memrelay.memory.validation import Place


@dataclass(frozen=True, slots=True)
class NewEdge:
    """An edge to add."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", use_attribute_docstrings=True
    )

    kind: str
    """The kind, which the template of the graph may restrict."""
    from_node_id: str
    """The id of the node at which the edge begins."""
    to_node_id: str
    """The id of the node at which the edge ends."""
    id: str = ""
    """The id, unique within the graph. By default generated."""


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


def add_edges(
    tx: Transaction, graph: Graph, edges: Sequence[NewEdge], context: Context
) -> list[Edge]:
    """Add all edges or none. Raises InvalidInput with every fault, and NameTaken."""
    faults = FaultList()
    ends = {id_ for edge in edges for id_ in (edge.from_node_id, edge.to_node_id)}
    kinds = tx.table(RecipeTables).graph.node_kinds(graph.id, ends)
    for at, edge in enumerate(edges):
        _check_edge(edge, graph, kinds, (("edges", at), faults))
    faults.raise_any("the input")
    refuse_taken(edge.id for edge in edges)
    given = [edge.id for edge in edges if edge.id]
    if taken := tx.table(RecipeTables).graph.taken_edges(graph.id, given):
        raise NameTaken(f"graph {graph.id!r} already has the edges {', '.join(taken[:5])}")
    added = [
        Edge(
            edge.id or context.new_guid(),
            edge.kind,
            edge.from_node_id,
            edge.to_node_id,
            context.now_ms,
        )
        for edge in edges
    ]
    tx.table(RecipeTables).graph.insert_edges(graph.id, added)
    return added


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
