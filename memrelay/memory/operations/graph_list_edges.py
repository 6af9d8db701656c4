"""graph.list_edges: lists the edges of a graph in pages."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_list import Limit, parse_cursor
from memrelay.memory.operations.records_read import take_page
from memrelay.memory.recipes.graph.edges import EdgeView, view_edge
from memrelay.memory.recipes.graph.names import SearchId
from memrelay.memory.recipes.graph.table import EdgeFilter
from memrelay.memory.recipes.sources.instances import find_id
from memrelay.memory.sqlite.store import Transaction

OptionalText = Annotated[str, Field(max_length=128)]


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


@operation("graph.list_edges", access="read", mutates=False, home="recipes")
def list_edges(tx: Transaction, wanted: ListEdges, context: Context) -> EdgePage:
    """List the edges of a graph in the order in which they were added, in pages.

    Raises RecordNotFound: when the graph does not exist.
    Raises Refused: when the cursor is invalid.
    """
    graph, table = find_id(tx, "graph", wanted.instance), tx.recipes.graph
    after = parse_cursor(wanted.cursor) or 0
    matching = EdgeFilter(wanted.kind, wanted.from_node_id, wanted.to_node_id, after)
    edges = table.edges(graph, matching, wanted.limit + 1)
    found = ((row, view_edge(graph, edge)) for row, edge in edges)
    rows, has_more = take_page(found, wanted.limit, context.result_bytes)
    return EdgePage(
        tuple(edge for _, edge in rows),
        str(rows[-1][0]) if has_more else None,
        table.count_edges(graph, matching),
    )
