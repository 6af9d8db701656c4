"""graph_templates.update: changes a template of graphs."""

from dataclasses import dataclass
from typing import Any

from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_update import check_version
from memrelay.memory.recipes.graph.names import Description, SearchId, TemplateName
from memrelay.memory.recipes.graph.stored import change_template, object_of
from memrelay.memory.recipes.graph.templates import (
    GraphTemplateView,
    check_graph_template,
    view_graph_template,
)
from memrelay.memory.recipes.objects import find_object
from memrelay.memory.records.view import Versions
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class UpdateGraphTemplate:
    """The changes of a template. Omitted fields keep their values."""

    id: SearchId
    """The id of the template."""
    name: TemplateName | None = None
    """The new name."""
    description: Description | None = None
    """The new description."""
    record_kinds: dict[str, Any] | None = None
    """The new kinds of nodes; they replace all present ones."""
    edge_types: dict[str, Any] | None = None
    """The new kinds of edges; they replace all present ones."""
    if_version: Versions = ()
    """Change only if the template has one of these versions."""


@operation("graph_templates.update", access="write", mutates=True, home="recipes")
def update(tx: Transaction, change: UpdateGraphTemplate, context: Context) -> GraphTemplateView:
    """Change a template of graphs. Present nodes and edges stay; later writes must fit.

    Raises RecordNotFound: when the template does not exist.
    Raises VersionConflict: when the template has another version.
    Raises InvalidInput: when the template is invalid.
    Raises ValueTooLarge: when the template is too long.
    """
    table = tx.recipes.graph_templates
    place = find_object(table, change.id)
    check_version(place.whole.record, place.whole.further, change.if_version)
    given = {
        name: value
        for name in ("name", "description", "record_kinds", "edge_types")
        if (value := getattr(change, name)) is not None
    }
    value = object_of(place.whole) | given
    check_graph_template(value["record_kinds"], value["edge_types"])
    return view_graph_template(change_template(table, place, value))
