"""graph.add_edges: adds edges to a graph."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.graph.edges import EdgeView, NewEdge, add_edges, view_edge
from memrelay.memory.recipes.graph.instances import find_graph
from memrelay.memory.recipes.graph.names import SearchId
from memrelay.memory.recipes.graph.nodes import MOST_ADDED
from memrelay.memory.sqlite.store import Transaction


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
def add(tx: Transaction, given: AddEdges, context: Context) -> AddedEdges:
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
