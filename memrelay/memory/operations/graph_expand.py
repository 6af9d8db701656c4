"""graph.expand: reads the neighbors of a node."""

from dataclasses import dataclass
from itertools import islice
from typing import Annotated

from pydantic import Field

from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.graph_subgraph import MOST_EDGES, GraphCounts, Subgraph
from memrelay.memory.operations.records_list import Limit
from memrelay.memory.operations.records_read import take_page
from memrelay.memory.recipes.graph.edges import view_edge
from memrelay.memory.recipes.graph.expansion import Direction, Walk, walk
from memrelay.memory.recipes.graph.names import SearchId
from memrelay.memory.recipes.graph.nodes import find_node, view_node
from memrelay.memory.recipes.graph.views import limited
from memrelay.memory.recipes.sources.instances import find_id
from memrelay.memory.sqlite.store import Transaction


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
    graph, table = find_id(tx, "graph", wanted.instance), tx.recipes.graph
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
