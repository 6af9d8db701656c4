"""View templates: queries over graphs, which views bind to a graph."""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment
from memrelay.memory.engine.versions import State
from memrelay.memory.errors import Refused
from memrelay.memory.models.recipes import VIEW_TEMPLATE_KIND
from memrelay.memory.models.recipes.graph.names import Description, NewId, SearchId, TemplateName
from memrelay.memory.models.recipes.graph.view_query import parse_query
from memrelay.memory.models.recipes.keyed_kind import TemplateKind, view_template
from memrelay.memory.models.recipes.table import RecipeTables
from memrelay.memory.records.view import Reason, Versions


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


@dataclass(frozen=True, slots=True)
class ViewTemplateView:
    """A view template."""

    id: str
    name: str
    description: str
    query: dict[str, Any]
    """The query: match, patterns, where, orderBy, skip, limit, return."""
    applicable_template_ids: tuple[str, ...]
    """The graph templates to which views may apply it; none for any graph."""
    created_at: Moment
    updated_at: Moment
    version: str
    """Changes with every write; a write can require it."""


def view_view_template(state: State) -> ViewTemplateView:
    """Return the view of a stored view template. Raises RecordDamaged."""
    fields = view_template(state)
    fields["applicable_template_ids"] = tuple(fields["applicable_template_ids"])
    return ViewTemplateView(**fields)


def check_view_template(template: dict[str, Any]) -> None:
    """Raise InvalidInput with every fault of the query."""
    parse_query(template["query"])


def refuse_used_template(tx: Transaction, id_: str) -> None:
    """Raise Refused if a view uses a view template."""
    views = [view.id for view in tx.table(RecipeTables).graph.views(template=id_)]
    if views:
        raise Refused(f"the views {', '.join(views[:5])} use the template; delete them first")


@dataclass(frozen=True, slots=True)
class GetViewTemplate:
    """The template to read."""

    id: SearchId
    """The id of the template."""


@dataclass(frozen=True, slots=True)
class ListViewTemplates:
    """Nothing to select: the list has all templates."""


@dataclass(frozen=True, slots=True)
class ViewTemplates:
    """Templates, the newest first."""

    items: tuple[ViewTemplateView, ...]


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


@dataclass(frozen=True, slots=True)
class DeleteViewTemplate:
    """The template to delete."""

    id: SearchId
    """The id of the template."""
    reason: Reason = ""
    """The reason, kept in the history."""
    if_version: Versions = ()
    """Delete only if the template has one of these versions."""


VIEW_TEMPLATES = TemplateKind(
    VIEW_TEMPLATE_KIND,
    "view template",
    "view_templates",
    view_view_template,
    fields=("name", "description", "query", "applicable_template_ids"),
    check=check_view_template,
)
VIEW_TEMPLATES.declare_create(
    CreateViewTemplate, "Create a query over graphs, which views bind to a graph."
)
VIEW_TEMPLATES.declare_get(GetViewTemplate, "Return a template of views.")
VIEW_TEMPLATES.declare_list(
    ListViewTemplates,
    ViewTemplates,
    "List up to 1,000 templates of views, the newest first. Fewer if they are long.",
)
VIEW_TEMPLATES.declare_update(
    UpdateViewTemplate, "Change a template of views. Its views use the new query at once."
)
VIEW_TEMPLATES.declare_delete(
    DeleteViewTemplate, "Delete a template that no view uses.", refuse_used_template
)
