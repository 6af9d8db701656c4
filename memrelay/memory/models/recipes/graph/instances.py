"""Graphs: instances of the sort `graph`, with their nodes, edges and views."""

from typing import NamedTuple

from memrelay.memory.engine.store import Transaction
from memrelay.memory.models.recipes.graph.templates import FittingTemplate, fitting_template
from memrelay.memory.models.recipes.instances import all_instances, find_instance
from memrelay.memory.records.data import kept_data


class Graph(NamedTuple):
    """A graph: its id, and the template that nodes and edges must fit, None for none."""

    id: str
    template: FittingTemplate | None
    template_id: str


def find_graph(tx: Transaction, id_or_name: str) -> Graph:
    """Return a graph by its id or name. Raises RecordNotFound."""
    place = find_instance(tx, "graph", id_or_name)
    data = kept_data(place.state.record, place.state.extras)
    template_id = data.get("template_id") or ""
    return Graph(place.state.key or "", fitting_template(tx, template_id), template_id)


def users_of_template(tx: Transaction, template_id: str) -> list[str]:
    """Return the ids of graphs that use a graph template."""
    return [
        place.state.key or ""
        for place in all_instances(tx, "graph")
        if kept_data(place.state.record, place.state.extras).get("template_id") == template_id
    ]
