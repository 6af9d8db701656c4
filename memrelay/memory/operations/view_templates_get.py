"""view_templates.get: reads a template of views."""

from dataclasses import dataclass

from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.graph.names import SearchId
from memrelay.memory.recipes.graph.views import ViewTemplateView, view_template_view
from memrelay.memory.recipes.objects import find_object
from memrelay.memory.sqlite.store import Transaction


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
    return view_template_view(find_object(tx.recipes.view_templates, wanted.id).whole)
