"""Graphs: instances of the sort `graph`, with their nodes, edges and views."""

from typing import NamedTuple

from memrelay.memory.recipes.graph.table import scope_of
from memrelay.memory.recipes.graph.templates import FittingTemplate, fitting_template
from memrelay.memory.recipes.sources.instances import all_instances, find_instance
from memrelay.memory.records.data import kept_data
from memrelay.memory.records.kinds import NODE_KIND
from memrelay.memory.sqlite.store import Transaction


class Graph(NamedTuple):
    """A graph: its id, and the template that nodes and edges must fit, None for none."""

    id: str
    template: FittingTemplate | None
    template_id: str


def find_graph(tx: Transaction, id_or_name: str) -> Graph:
    """Return a graph by its id or name. Raises RecordNotFound."""
    place = find_instance(tx, "graph", id_or_name)
    data = kept_data(place.whole.record, place.whole.further)
    template_id = data.get("template_id") or ""
    return Graph(place.whole.key or "", fitting_template(tx, template_id), template_id)


def users_of_template(tx: Transaction, template_id: str) -> list[str]:
    """Return the ids of graphs that use a graph template."""
    return [
        place.whole.key or ""
        for place in all_instances(tx, "graph")
        if kept_data(place.whole.record, place.whole.further).get("template_id") == template_id
    ]


def delete_graph(tx: Transaction, instance: str) -> None:
    """Delete the nodes, edges and views of a graph, whose instance record the caller deletes.

    The nodes keep their last versions.
    """
    tx.recipes.graph.delete_rows(instance)
    tx.records.delete_all({"kind": NODE_KIND, "scope": scope_of(instance)})
