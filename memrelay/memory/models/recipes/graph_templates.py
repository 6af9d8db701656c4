"""graph_templates.create: creates a template of graphs."""

from dataclasses import dataclass, field
from typing import Any

from memrelay.memory.engine.store import Transaction
from memrelay.memory.errors import Refused
from memrelay.memory.models.recipes.graph.instances import users_of_template
from memrelay.memory.models.recipes.graph.names import Description, NewId, SearchId, TemplateName
from memrelay.memory.models.recipes.graph.stored import (
    change_template,
    create_template,
    object_of,
    stored_templates,
)
from memrelay.memory.models.recipes.graph.templates import (
    GraphTemplateView,
    check_graph_template,
    view_graph_template,
)
from memrelay.memory.models.recipes.objects import find_object
from memrelay.memory.models.recipes.records import RecipeTables
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.reading import MOST, take_page
from memrelay.memory.records.view import Reason, Versions
from memrelay.memory.records.writing import check_version


@dataclass(frozen=True, slots=True)
class CreateGraphTemplate:
    """The template to create."""

    name: TemplateName
    """The name."""
    id: NewId = ""
    """The id: letters, digits, dots, dashes and underscores. By default generated."""
    description: Description = ""
    """The purpose of graphs with this template."""
    record_kinds: dict[str, Any] = field(default_factory=dict)
    """The kinds of nodes: {Kind: {fields: {field: {type, required}}}}. None allow any kind."""
    edge_types: dict[str, Any] = field(default_factory=dict)
    """The kinds of edges: {KIND: {from, to}}, with the kinds of their nodes. None allow any."""


@operation("graph_templates.create", access="write", mutates=True, home="recipes")
def create(tx: Transaction, given: CreateGraphTemplate, context: Context) -> GraphTemplateView:
    """Create a template that nodes and edges of its graphs must fit.

    Raises InvalidInput: when the template is invalid.
    Raises NameTaken: when another template has the id.
    Raises ValueTooLarge: when the template is too long.
    """
    check_graph_template(given.record_kinds, given.edge_types)
    value = {
        "name": given.name,
        "description": given.description,
        "record_kinds": given.record_kinds,
        "edge_types": given.edge_types,
    }
    return view_graph_template(
        create_template(tx.table(RecipeTables).graph_templates, given.id, value, context)
    )


@dataclass(frozen=True, slots=True)
class GetGraphTemplate:
    """The template to read."""

    id: SearchId
    """The id of the template."""


@operation("graph_templates.get", access="read", mutates=False, home="recipes")
def get(tx: Transaction, wanted: GetGraphTemplate, context: Context) -> GraphTemplateView:
    """Return a template of graphs.

    Raises RecordNotFound: when the template does not exist.
    """
    return view_graph_template(find_object(tx.table(RecipeTables).graph_templates, wanted.id).state)


@dataclass(frozen=True, slots=True)
class ListGraphTemplates:
    """Nothing to select: the list has all templates."""


@dataclass(frozen=True, slots=True)
class GraphTemplates:
    """Templates, the newest first."""

    items: tuple[GraphTemplateView, ...]


@operation("graph_templates.list", access="read", mutates=False, home="recipes")
def list_templates(tx: Transaction, wanted: ListGraphTemplates, context: Context) -> GraphTemplates:
    """List up to 1,000 templates of graphs, the newest first. Fewer if they are long."""
    found = map(view_graph_template, stored_templates(tx.table(RecipeTables).graph_templates))
    return GraphTemplates(tuple(take_page(found, MOST, context.result_bytes)[0]))


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
    table = tx.table(RecipeTables).graph_templates
    place = find_object(table, change.id)
    check_version(place.state.record, place.state.extras, change.if_version)
    given = {
        name: value
        for name in ("name", "description", "record_kinds", "edge_types")
        if (value := getattr(change, name)) is not None
    }
    value = object_of(place.state) | given
    check_graph_template(value["record_kinds"], value["edge_types"])
    return view_graph_template(change_template(table, place, value))


@dataclass(frozen=True, slots=True)
class DeleteGraphTemplate:
    """The template to delete."""

    id: SearchId
    """The id of the template."""
    reason: Reason = ""
    """The reason, kept in the history."""
    if_version: Versions = ()
    """Delete only if the template has one of these versions."""


@operation("graph_templates.delete", access="delete", mutates=True, home="recipes")
def delete(tx: Transaction, target: DeleteGraphTemplate, context: Context) -> None:
    """Delete a template that no graph uses.

    Raises RecordNotFound: when the template does not exist.
    Raises VersionConflict: when the template has another version.
    Raises Refused: when a graph uses the template.
    """
    place = find_object(tx.table(RecipeTables).graph_templates, target.id)
    check_version(place.state.record, place.state.extras, target.if_version)
    uses = users_of_template(tx, target.id)
    if uses:
        raise Refused(f"the graphs {', '.join(uses[:5])} use the template; delete them first")
    tx.records.delete(place)
