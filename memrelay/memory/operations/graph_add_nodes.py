"""graph.add_nodes: adds nodes to a graph."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.graph.instances import find_graph
from memrelay.memory.recipes.graph.names import SearchId
from memrelay.memory.recipes.graph.nodes import (
    MOST_ADDED,
    NewNode,
    NodeView,
    add_nodes,
    view_node,
)
from memrelay.memory.sqlite.store import Transaction


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
def add(tx: Transaction, given: AddNodes, context: Context) -> AddedNodes:
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
