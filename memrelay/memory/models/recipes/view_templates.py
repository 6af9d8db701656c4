"""view_templates.create: creates a template of views."""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from memrelay.memory.engine.store import Transaction
from memrelay.memory.errors import Refused
from memrelay.memory.models.recipes.graph.names import Description, NewId, SearchId, TemplateName
from memrelay.memory.models.recipes.graph.stored import (
    change_template,
    create_template,
    object_of,
    stored_templates,
)
from memrelay.memory.models.recipes.graph.view_query import parse_query
from memrelay.memory.models.recipes.graph.view_sql import check_values
from memrelay.memory.models.recipes.graph.views import (
    ViewTemplateView,
    find_view_template,
    view_template_view,
)
from memrelay.memory.models.recipes.objects import find_object
from memrelay.memory.models.recipes.records import RecipeTables
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.reading import MOST, take_page
from memrelay.memory.records.view import Reason, Versions
from memrelay.memory.records.writing import check_version


@dataclass(frozen=True, slots=True)
class CreateViewTemplate:
    """The template to create."""

    name: TemplateName
    """The name."""
    query: dict[str, Any]
    """The query: match, patterns (at most 4), where, orderBy, skip, limit, return."""
    id: NewId = ""
    """The id: letters, digits, dots, dashes and underscores. By default generated."""
    description: Description = ""
    """The contents of the views."""
    applicable_template_ids: Annotated[tuple[SearchId, ...], Field(max_length=64)] = ()
    """The graph templates to which views may apply it; none for any graph."""


@operation("view_templates.create", access="write", mutates=True, home="recipes")
def create(tx: Transaction, given: CreateViewTemplate, context: Context) -> ViewTemplateView:
    """Create a query over graphs, which views bind to a graph.

    Raises InvalidInput: when the query is invalid, with every fault.
    Raises NameTaken: when another template has the id.
    Raises ValueTooLarge: when the template is too long.
    """
    check_values(parse_query(given.query))
    value = {
        "name": given.name,
        "description": given.description,
        "query": given.query,
        "applicable_template_ids": given.applicable_template_ids,
    }
    return view_template_view(
        create_template(tx.table(RecipeTables).view_templates, given.id, value, context)
    )


@dataclass(frozen=True, slots=True)
class GetViewTemplate:
    """The template to read."""

    id: SearchId
    """The id of the template."""


@operation("view_templates.get", access="read", mutates=False, home="recipes")
def get(tx: Transaction, wanted: GetViewTemplate, context: Context) -> ViewTemplateView:
    """Return a template of views.

    Raises RecordNotFound: when the template does not exist.
    """
    return view_template_view(find_object(tx.table(RecipeTables).view_templates, wanted.id).state)


@dataclass(frozen=True, slots=True)
class ListViewTemplates:
    """Nothing to select: the list has all templates."""


@dataclass(frozen=True, slots=True)
class ViewTemplates:
    """Templates, the newest first."""

    items: tuple[ViewTemplateView, ...]


@operation("view_templates.list", access="read", mutates=False, home="recipes")
def list_templates(tx: Transaction, wanted: ListViewTemplates, context: Context) -> ViewTemplates:
    """List up to 1,000 templates of views, the newest first. Fewer if they are long."""
    found = map(view_template_view, stored_templates(tx.table(RecipeTables).view_templates))
    return ViewTemplates(tuple(take_page(found, MOST, context.result_bytes)[0]))


@dataclass(frozen=True, slots=True)
class UpdateViewTemplate:
    """The changes of a template. Omitted fields keep their values."""

    id: SearchId
    """The id of the template."""
    name: TemplateName | None = None
    """The new name."""
    query: dict[str, Any] | None = None
    """The new query; it replaces the whole present one."""
    description: Description | None = None
    """The new description."""
    applicable_template_ids: Annotated[tuple[SearchId, ...], Field(max_length=64)] | None = None
    """The new graph templates to which views may apply it."""
    if_version: Versions = ()
    """Change only if the template has one of these versions."""


@operation("view_templates.update", access="write", mutates=True, home="recipes")
def update(tx: Transaction, change: UpdateViewTemplate, context: Context) -> ViewTemplateView:
    """Change a template of views. Its views use the new query at once.

    Raises RecordNotFound: when the template does not exist.
    Raises VersionConflict: when the template has another version.
    Raises InvalidInput: when the query is invalid, with every fault.
    Raises ValueTooLarge: when the template is too long.
    """
    place = find_view_template(tx, change.id)
    check_version(place.state.record, place.state.extras, change.if_version)
    if change.query is not None:
        check_values(parse_query(change.query))
    given = {
        name: value
        for name in ("name", "query", "description", "applicable_template_ids")
        if (value := getattr(change, name)) is not None
    }
    value = object_of(place.state) | given
    return view_template_view(change_template(tx.table(RecipeTables).view_templates, place, value))


@dataclass(frozen=True, slots=True)
class DeleteViewTemplate:
    """The template to delete."""

    id: SearchId
    """The id of the template."""
    reason: Reason = ""
    """The reason, kept in the history."""
    if_version: Versions = ()
    """Delete only if the template has one of these versions."""


@operation("view_templates.delete", access="delete", mutates=True, home="recipes")
def delete(tx: Transaction, target: DeleteViewTemplate, context: Context) -> None:
    """Delete a template that no view uses.

    Raises RecordNotFound: when the template does not exist.
    Raises VersionConflict: when the template has another version.
    Raises Refused: when a view uses the template.
    """
    place = find_object(tx.table(RecipeTables).view_templates, target.id)
    check_version(place.state.record, place.state.extras, target.if_version)
    uses = [view.id for view in tx.table(RecipeTables).graph.views(template=target.id)]
    if uses:
        raise Refused(f"the views {', '.join(uses[:5])} use the template; delete them first")
    tx.records.delete(place)
