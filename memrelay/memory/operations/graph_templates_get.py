"""graph_templates.get: reads a template of graphs."""

from dataclasses import dataclass

from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.graph.names import SearchId
from memrelay.memory.recipes.graph.templates import GraphTemplateView, view_graph_template
from memrelay.memory.recipes.objects import find_object
from memrelay.memory.sqlite.store import Transaction


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
    return view_graph_template(find_object(tx.recipes.graph_templates, wanted.id).whole)
