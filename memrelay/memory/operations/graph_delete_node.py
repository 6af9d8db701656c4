"""graph.delete_node: deletes a node of a graph with its edges."""

from dataclasses import dataclass

from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_update import check_version
from memrelay.memory.recipes.graph.names import SearchId
from memrelay.memory.recipes.graph.nodes import find_node
from memrelay.memory.recipes.sources.instances import find_id
from memrelay.memory.records.view import Reason, Versions
from memrelay.memory.sqlite.store import Transaction


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
    check_version(place.whole.record, place.whole.further, target.if_version)
    tx.recipes.graph.delete_edges_at(graph, target.id)
    tx.records.delete(place)
