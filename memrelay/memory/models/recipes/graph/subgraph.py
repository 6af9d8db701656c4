"""Parts of graphs: nodes and the edges between them, found by walks."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.versions import State
from memrelay.memory.models.recipes.graph.graph import (
    EdgeView,
    NodeView,
    find_node,
    view_edge,
    view_node,
)
from memrelay.memory.models.recipes.graph.names import SearchId
from memrelay.memory.models.recipes.graph.views import limited
from memrelay.memory.models.recipes.instances import find_id
from memrelay.memory.models.recipes.table import RecipeTables, make_node_scope
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.paging import Limit, take_page

# Edges of an answer.
MOST_EDGES = 10_000
# A distance that no graph reaches.
ANY_DISTANCE = 1 << 62
Direction = Literal["outgoing", "incoming", "both"]


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


@operation("graph.subgraph", access="read", mutates=False, store="recipes")
def subgraph(tx: Transaction, query: GetSubgraph, context: Context) -> Subgraph:
    """Return nodes of a graph and the edges between them.

    Raises RecordNotFound: when the graph or the seed does not exist.
    Raises SearchTooLong: when the read exceeds its time limit.
    """
    graph, table = find_id(tx, "graph", query.instance), tx.table(RecipeTables).graph
    with limited(tx, "the subgraph"):
        if query.seed_node_id:
            seed = find_node(tx, graph, query.seed_node_id).state
            steps = walk(tx, graph, [query.seed_node_id], Walk(depth=ANY_DISTANCE))
            states = chain([seed], (step.state for step in steps))
        else:
            places = table.first_nodes(graph, query.limit + 1)
            states = chain(stored.state for stored in places)
        node_views = map(view_node, islice(states, query.limit + 1))
        nodes, has_more = take_page(node_views, query.limit, context.result_bytes // 2)
        edges = table.edges_between(graph, [node.id for node in nodes], MOST_EDGES + 1)
        views = (view_edge(graph, edge) for edge in edges)
        edge_views, has_more_edges = take_page(views, MOST_EDGES, context.result_bytes // 2)
        counts = GraphCounts(table.count_nodes(graph), table.count_edges(graph))
    return Subgraph(tuple(nodes), tuple(edge_views), counts, has_more or has_more_edges)


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


@operation("graph.expand", access="read", mutates=False, store="recipes")
def expand(tx: Transaction, query: ExpandNode, context: Context) -> Subgraph:
    """Return the neighbors of a node, in the order of its edges, and its edges to them.

    `total_counts` has all neighbors and edges of the node in this direction.

    Raises RecordNotFound: when the graph or the node does not exist.
    Raises SearchTooLong: when the read exceeds its time limit.
    """
    graph, table = find_id(tx, "graph", query.instance), tx.table(RecipeTables).graph
    find_node(tx, graph, query.node_id)
    how = Walk(direction=query.direction)
    with limited(tx, "the expansion"):
        steps = walk(tx, graph, [query.node_id], how, query.exclude_node_ids)
        node_views = (view_node(step.state) for step in islice(steps, query.limit + 1))
        nodes, has_more = take_page(node_views, query.limit, context.result_bytes // 2)
        ids = {node.id for node in nodes}
        neighbors, of_nodes, count = set[str](), [], 0
        for edge in table.edges_at(graph, query.node_id, query.direction):
            other = edge.to_node if edge.from_node == query.node_id else edge.from_node
            neighbors.add(other)
            count += 1
            if other in ids:
                of_nodes.append(view_edge(graph, edge))
        edge_views, has_more_edges = take_page(of_nodes, MOST_EDGES, context.result_bytes // 2)
    counts = GraphCounts(len(neighbors - {query.node_id}), count)
    return Subgraph(tuple(nodes), tuple(edge_views), counts, has_more or has_more_edges)


@dataclass(frozen=True, slots=True)
class Walk:
    """How to walk: over edges of these kinds (none are all), up to a distance."""

    kinds: Sequence[str] = ()
    direction: Direction = "both"
    depth: int = 1


class Step(NamedTuple):
    """A node that a walk reached."""

    state: State
    # The number of edges from the seed.
    distance: int
    # The seed of the walk.
    seed: str
    # The edge that reached it: its kind, the id of the node before, and its direction from there.
    edge: str
    before: str
    direction: str


def walk(
    tx: Transaction, instance: str, seeds: Iterable[str], how: Walk, excluded: Iterable[str] = ()
) -> Iterator[Step]:
    """Yield each node that the seeds reach, once, the nearest first. Seeds are not yielded.

    `excluded` nodes are neither yielded nor walked over.
    """
    waiting = deque((seed, 0, seed) for seed in dict.fromkeys(seeds))
    seen = {*excluded, *(seed for seed, *_ in waiting)}
    scope = make_node_scope(instance)
    while waiting:
        node, distance, seed = waiting.popleft()
        for edge in tx.table(RecipeTables).graph.edges_at(instance, node, how.direction, how.kinds):
            is_outgoing = edge.from_node == node and how.direction != "incoming"
            other = edge.to_node if is_outgoing else edge.from_node
            if other in seen:
                continue
            seen.add(other)
            stored = tx.table(RecipeTables).nodes.find(scope, other)
            if stored is None:
                continue
            if distance + 1 < how.depth:
                waiting.append((other, distance + 1, seed))
            direction = "outgoing" if is_outgoing else "incoming"
            yield Step(stored.state, distance + 1, seed, edge.kind, node, direction)
