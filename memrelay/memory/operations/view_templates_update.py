"""view_templates.update: changes a template of views."""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_update import check_version
from memrelay.memory.recipes.graph.names import Description, SearchId, TemplateName
from memrelay.memory.recipes.graph.stored import change_template, object_of
from memrelay.memory.recipes.graph.view_query import parse_query
from memrelay.memory.recipes.graph.view_sql import check_values
from memrelay.memory.recipes.graph.views import (
    ViewTemplateView,
    find_view_template,
    view_template_view,
)
from memrelay.memory.records.view import Versions
from memrelay.memory.sqlite.store import Transaction


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
    check_version(place.whole.record, place.whole.further, change.if_version)
    if change.query is not None:
        check_values(parse_query(change.query))
    given = {
        name: value
        for name in ("name", "query", "description", "applicable_template_ids")
        if (value := getattr(change, name)) is not None
    }
    value = object_of(place.whole) | given
    return view_template_view(change_template(tx.recipes.view_templates, place, value))
