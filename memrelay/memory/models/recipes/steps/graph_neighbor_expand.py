"""The step `graph_neighbor_expand`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memrelay.memory.models.recipes.graph.expansion import Direction, Walk, walk
from memrelay.memory.models.recipes.graph.node_items import node_item
from memrelay.memory.models.recipes.graph.views import limited
from memrelay.memory.models.recipes.sources.step_instance import require_instance
from memrelay.memory.models.recipes.step import Items, StepCall, step

Name = Annotated[str, Field(min_length=1, max_length=128)]


@dataclass(frozen=True, slots=True)
class NeighborExpand:
    """Parameters of `graph_neighbor_expand`."""

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
    found: dict[str, list[str]] = {params.instance: []} if params.instance else {}
    for item in call.items:
        instance = params.instance or item.get("instance")
        if isinstance(instance, str) and "id" in item:
            found.setdefault(instance, []).append(str(item["id"]))
    if call.items and not found:
        message = "no item names its graph; set `instance`, or expand items of a graph step"
        call.warn("no_instance", message)
    return found


def _neighbors(
    call: StepCall, graph_and_seeds: tuple[str, Sequence[str]], how: Walk, limit: int
) -> Items:
    name, seeds = graph_and_seeds
    instance = require_instance(call, "graph", name)
    added: Items = []
    for found in walk(call.tx, instance, seeds, how):
        if len(added) >= limit:
            break
        via = {"edge": found.edge, "from": found.before, "direction": found.direction}
        place = {"distance": found.distance, "from": found.seed, "via": via}
        score = {"score": round(1 / (1 + found.distance), 4)}
        added.append(node_item(found.state) | place | score)
    return added
