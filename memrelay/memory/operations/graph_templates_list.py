"""graph_templates.list: lists the templates of graphs."""

from dataclasses import dataclass

from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_list import MOST
from memrelay.memory.operations.records_read import take_page
from memrelay.memory.recipes.graph.stored import stored_templates
from memrelay.memory.recipes.graph.templates import GraphTemplateView, view_graph_template
from memrelay.memory.sqlite.store import Transaction


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
    found = map(view_graph_template, stored_templates(tx.recipes.graph_templates))
    return GraphTemplates(tuple(take_page(found, MOST, context.result_bytes)[0]))
