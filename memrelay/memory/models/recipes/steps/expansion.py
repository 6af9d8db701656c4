"""Steps that add the nodes near the items in a graph."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from memrelay.memory.engine.versions import State
from memrelay.memory.models.recipes.execution.items import item_text
from memrelay.memory.models.recipes.graph.graph import view_node
from memrelay.memory.models.recipes.graph.subgraph import Direction, Walk, walk
from memrelay.memory.models.recipes.graph.view_query import Query
from memrelay.memory.models.recipes.graph.views import last_nodes, limited
from memrelay.memory.models.recipes.step import Items, StepCall, step
from memrelay.memory.models.recipes.steps.retrieval import ViewId, find_query, require_instance
from memrelay.memory.models.recipes.table import RecipeTables, View, make_node_scope

Name = Annotated[str, Field(min_length=1, max_length=128)]


@dataclass(frozen=True, slots=True)
class NeighborExpand:
    instance: Annotated[str, Field(max_length=128)] = ""
    """The id or name of the graph. By default that of the items."""
    edges: Annotated[tuple[Name, ...], Field(max_length=64)] = ()
    """The kinds of edges to follow. By default all."""
    direction: Direction = "both"
    """The direction of the edges: outgoing, incoming or both."""
    depth: Annotated[int, Field(ge=1, le=3)] = 1
    """The maximum distance from the items."""
    limit: Annotated[int, Field(ge=1, le=1000)] = 50
    """The maximum number of added nodes."""
    include_seeds: bool = True
    """Whether the result begins with the items."""


@step("graph_neighbor_expand", "expansion", reads=("list", "groups"))
def expand_neighbors(params: NeighborExpand, call: StepCall) -> Items:
    """Add the nodes near each item in its graph, the nearest first."""
    how = Walk(params.edges, params.direction, params.depth)
    added: Items = []
    with limited(call.tx, "the expansion"):
        for name, seeds in _seeds(params, call).items():
            added += _neighbors(call, (name, seeds), how, params.limit - len(added))
    return [*call.items, *added] if params.include_seeds else added


def _seeds(params: NeighborExpand, call: StepCall) -> dict[str, list[str]]:
    """Return the ids of the items by graph. Items without a graph are left out."""
    seeds: dict[str, list[str]] = {params.instance: []} if params.instance else {}
    for item in call.items:
        instance = params.instance or item.get("instance")
        if isinstance(instance, str) and "id" in item:
            seeds.setdefault(instance, []).append(str(item["id"]))
    if call.items and not seeds:
        message = "no item names its graph; set `instance`, or expand items of a graph step"
        call.warn("no_instance", message)
    return seeds


def _neighbors(
    call: StepCall, graph_and_seeds: tuple[str, Sequence[str]], how: Walk, limit: int
) -> Items:
    name, seeds = graph_and_seeds
    instance = require_instance(call, "graph", name)
    added: Items = []
    for reached in walk(call.tx, instance, seeds, how):
        if len(added) >= limit:
            break
        via = {"edge": reached.edge, "from": reached.before, "direction": reached.direction}
        position = {"distance": reached.distance, "from": reached.seed, "via": via}
        score = {"score": round(1 / (1 + reached.distance), 4)}
        added.append(node_item(reached.state) | position | score)
    return added


@dataclass(frozen=True, slots=True)
class ViewExpand:
    view_id: ViewId
    """The id of a view with patterns, which runs from each item as its matched node."""
    limit: Annotated[int, Field(ge=1, le=1000)] = 50
    """The maximum number of added nodes."""


@step("graph_view_expand", "expansion", reads=("list", "groups"))
def expand_view(params: ViewExpand, call: StepCall) -> Items:
    """Add the nodes at which the last pattern of a view ends, from each item."""
    view, query = find_query(call.tx, params.view_id)
    if not query.patterns:
        message = f"the view {view.id!r} has no patterns and adds no nodes; add one to its template"
        call.warn("no_patterns", message)
        return call.items
    with limited(call.tx, f"the view {view.id!r}"):
        return call.items + _added(call, view, query, params.limit)


def _added(call: StepCall, view: View, query: Query, limit: int) -> Items:
    """Return the nodes that the items do not have yet, each once."""
    seeds = [
        str(item["id"])
        for item in call.items
        if item.get("instance", view.instance) == view.instance and "id" in item
    ]
    seen, added = set(seeds), Items()
    for seed in dict.fromkeys(seeds):
        for node in last_nodes(call.tx, view, query, seed):
            if len(added) == limit:
                return added
            if node in seen:
                continue
            seen.add(node)
            stored = call.tx.table(RecipeTables).nodes.find(make_node_scope(view.instance), node)
            if stored is not None:
                origin = {"distance": 1, "from": seed, "via": view.id}
                added.append(node_item(stored.state) | origin)
    return added


def node_item(state: State) -> dict[str, Any]:
    """Return the item of a node. Its text comes from the attributes, else it is the name."""
    node = view_node(state)
    return {
        "id": node.id,
        "text": item_text({**node.attributes, "name": node.name}),
        "name": node.name,
        "kind": node.kind,
        "attributes": node.attributes,
        "instance": node.instance_id,
    }
