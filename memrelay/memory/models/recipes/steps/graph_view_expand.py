"""The step `graph_view_expand`."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memrelay.memory.models.recipes.graph.node_items import node_item
from memrelay.memory.models.recipes.graph.table import View, scope_of
from memrelay.memory.models.recipes.graph.view_query import Query
from memrelay.memory.models.recipes.graph.views import last_nodes, limited
from memrelay.memory.models.recipes.records import RecipeTables
from memrelay.memory.models.recipes.step import Items, StepCall, step
from memrelay.memory.models.recipes.steps.graph_view_read import ViewId, find_query


@dataclass(frozen=True, slots=True)
class ViewExpand:
    """Parameters of `graph_view_expand`."""

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
            place = call.tx.table(RecipeTables).nodes.find(scope_of(view.instance), node)
            if place is not None:
                origin = {"distance": 1, "from": seed, "via": view.id}
                added.append(node_item(place.state) | origin)
    return added
