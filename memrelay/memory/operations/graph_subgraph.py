"""graph.subgraph: reads a part of a graph with its edges."""

from dataclasses import dataclass
from itertools import chain, islice
from typing import Annotated

from pydantic import Field

from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_list import Limit
from memrelay.memory.operations.records_read import take_page
from memrelay.memory.recipes.graph.edges import EdgeView, view_edge
from memrelay.memory.recipes.graph.expansion import Walk, walk
from memrelay.memory.recipes.graph.names import SearchId
from memrelay.memory.recipes.graph.nodes import NodeView, find_node, view_node
from memrelay.memory.recipes.graph.views import limited
from memrelay.memory.recipes.sources.instances import find_id
from memrelay.memory.sqlite.store import Transaction

# Edges of an answer.
MOST_EDGES = 10_000
# A distance that no graph reaches.
ANY_DISTANCE = 1 << 62


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
    graph, table = find_id(tx, "graph", wanted.instance), tx.recipes.graph
    with limited(tx, "the subgraph"):
        if wanted.seed_node_id:
            seed = find_node(tx, graph, wanted.seed_node_id).whole
            steps = walk(tx, graph, [wanted.seed_node_id], Walk(depth=ANY_DISTANCE))
            states = chain([seed], (step.state for step in steps))
        else:
            places = table.first_nodes(graph, wanted.limit + 1)
            states = chain(place.whole for place in places)
        found = map(view_node, islice(states, wanted.limit + 1))
        nodes, has_more = take_page(found, wanted.limit, context.result_bytes // 2)
        edges = table.edges_between(graph, [node.id for node in nodes], MOST_EDGES + 1)
        views = (view_edge(graph, edge) for edge in edges)
        kept, has_more_edges = take_page(views, MOST_EDGES, context.result_bytes // 2)
        counts = GraphCounts(table.count_nodes(graph), table.count_edges(graph))
    return Subgraph(tuple(nodes), tuple(kept), counts, has_more or has_more_edges)
