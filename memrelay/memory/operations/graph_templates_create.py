"""graph_templates.create: creates a template of graphs."""

from dataclasses import dataclass, field
from typing import Any

from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.graph.names import Description, NewId, TemplateName
from memrelay.memory.recipes.graph.stored import create_template
from memrelay.memory.recipes.graph.templates import (
    GraphTemplateView,
    check_graph_template,
    view_graph_template,
)
from memrelay.memory.sqlite.store import Transaction


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
        create_template(tx.recipes.graph_templates, given.id, value, context)
    )
