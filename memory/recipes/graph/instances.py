"""Graphs: instances of the sort `graph`, with their nodes, edges and views."""

from typing import NamedTuple

from memrelay.memory.errors import RecordNotFound
from memrelay.memory.recipes.graph.table import scope_of
from memrelay.memory.recipes.graph.templates import FittingTemplate, fitting_template
from memrelay.memory.records.data import load_json
from memrelay.memory.records.kinds import NODE_KIND
from memrelay.memory.sqlite.store import Transaction

MOST_INSTANCES = 10_000


class Graph(NamedTuple):
    """A graph: its id, and the template that nodes and edges must fit, None for none."""

    id: str
    template: FittingTemplate | None
    template_id: str


def find_graph(tx: Transaction, id_or_name: str) -> Graph:
    """Return a graph by its id or name. Raises RecordNotFound."""
    table = tx.recipes.instances
    place = table.find("graph", id_or_name)
    if place is None:
        of_sort = table.page("graph", "", MOST_INSTANCES)
        place = next((one for one in of_sort if one.whole.content == id_or_name), None)
    if place is None:
        raise RecordNotFound(
            f"no graph has the id or name {id_or_name!r}; create it with instances.create"
        )
    data = load_json(place.whole.data or "{}", place.guid)
    template_id = data.get("template_id") or ""
    return Graph(place.whole.key or "", fitting_template(tx, template_id), template_id)


def users_of_template(tx: Transaction, template_id: str) -> list[str]:
    """Return the ids of graphs that use a graph template."""
    places = tx.recipes.instances.page("graph", "", MOST_INSTANCES)
    return [
        place.whole.key or ""
        for place in places
        if load_json(place.whole.data or "{}", place.guid).get("template_id") == template_id
    ]


def delete_graph(tx: Transaction, instance: str) -> None:
    """Delete the nodes, edges and views of a graph, whose instance record the caller deletes.

    The nodes keep their last versions.
    """
    tx.recipes.graph.delete_rows(instance)
    tx.records.delete_all({"kind": NODE_KIND, "scope": scope_of(instance)})
