"""graph.list_nodes: lists the nodes of a graph in pages."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_list import Limit
from memrelay.memory.operations.records_read import take_page
from memrelay.memory.recipes.graph.names import SearchId
from memrelay.memory.recipes.graph.nodes import NodeView, view_node
from memrelay.memory.recipes.sources.instances import find_id
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class ListNodes:
    """The nodes to list, and the page."""

    instance: SearchId
    """The id or name of the graph."""
    kind: Annotated[str, Field(max_length=128)] = ""
    """Only nodes of this kind."""
    limit: Limit = 100
    """The maximum number of nodes. A page of long nodes may have fewer."""
    cursor: Annotated[str, Field(max_length=128)] = ""
    """The `next_cursor` of the previous page: the id of its last node."""


@dataclass(frozen=True, slots=True)
class NodePage:
    """A page of nodes, by id."""

    items: tuple[NodeView, ...]
    next_cursor: str | None
    """The cursor of the next page; null on the last page."""
    total: int
    """The number of nodes on all pages."""


@operation("graph.list_nodes", access="read", mutates=False, home="recipes")
def list_nodes(tx: Transaction, wanted: ListNodes, context: Context) -> NodePage:
    """List the nodes of a graph by id, in pages.

    Raises RecordNotFound: when the graph does not exist.
    """
    graph, table = find_id(tx, "graph", wanted.instance), tx.recipes.graph
    places = table.nodes(graph, wanted.kind, wanted.cursor, wanted.limit + 1)
    found = (view_node(place.whole) for place in places)
    items, has_more = take_page(found, wanted.limit, context.result_bytes)
    total = table.count_nodes(graph, wanted.kind)
    return NodePage(tuple(items), items[-1].id if has_more else None, total)
