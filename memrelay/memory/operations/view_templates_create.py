"""view_templates.create: creates a template of views."""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.graph.names import Description, NewId, SearchId, TemplateName
from memrelay.memory.recipes.graph.stored import create_template
from memrelay.memory.recipes.graph.view_query import parse_query
from memrelay.memory.recipes.graph.view_sql import check_values
from memrelay.memory.recipes.graph.views import ViewTemplateView, view_template_view
from memrelay.memory.sqlite.store import Transaction


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
    return view_template_view(create_template(tx.recipes.view_templates, given.id, value, context))
