"""graph.delete_edge: deletes an edge of a graph."""

from dataclasses import dataclass

from memrelay.memory.errors import RecordNotFound
from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.graph.names import SearchId
from memrelay.memory.recipes.sources.instances import find_id
from memrelay.memory.sqlite.store import Transaction


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
    edge = tx.recipes.graph.edge(graph, target.id)
    if edge is None:
        raise RecordNotFound(f"graph {graph!r} has no edge {target.id!r}; list its edges")
    tx.recipes.graph.delete_edge(graph, edge.id)
    ends = {"from_node_id": edge.from_node, "to_node_id": edge.to_node}
    tx.feed.add("edge.deleted", graph, {"id": edge.id, "kind": edge.kind, **ends})
