"""graph.get_node: reads a node of a graph."""

from dataclasses import dataclass

from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.graph.names import SearchId
from memrelay.memory.recipes.graph.nodes import NodeView, find_node, view_node
from memrelay.memory.recipes.sources.instances import find_id
from memrelay.memory.sqlite.store import Transaction


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
    return view_node(find_node(tx, find_id(tx, "graph", wanted.instance), wanted.id).whole)
