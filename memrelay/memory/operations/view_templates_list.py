"""view_templates.list: lists the templates of views."""

from dataclasses import dataclass

from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_list import MOST
from memrelay.memory.operations.records_read import take_page
from memrelay.memory.recipes.graph.stored import stored_templates
from memrelay.memory.recipes.graph.views import ViewTemplateView, view_template_view
from memrelay.memory.sqlite.store import Transaction


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
    found = map(view_template_view, stored_templates(tx.recipes.view_templates))
    return ViewTemplates(tuple(take_page(found, MOST, context.result_bytes)[0]))
