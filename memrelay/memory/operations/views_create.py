"""views.create: binds a view template to a graph."""

from dataclasses import dataclass

from memrelay.memory.errors import Fault, InvalidInput, NameTaken
from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.graph.instances import find_graph
from memrelay.memory.recipes.graph.names import NewId, SearchId
from memrelay.memory.recipes.graph.stored import object_of
from memrelay.memory.recipes.graph.table import View
from memrelay.memory.recipes.graph.views import ViewView, find_view_template, view_view
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class CreateView:
    """The view to create."""

    template_id: SearchId
    """The id of the view template."""
    instance: SearchId
    """The id or name of the graph."""
    id: NewId = ""
    """The id: letters, digits, dots, dashes and underscores. By default generated."""


@operation("views.create", access="write", mutates=True, home="recipes")
def create(tx: Transaction, given: CreateView, context: Context) -> ViewView:
    """Bind a view template to a graph.

    Raises RecordNotFound: when the template or the graph does not exist.
    Raises InvalidInput: when the template does not apply to the graph.
    Raises NameTaken: when another view has the id.
    """
    graph, place = find_graph(tx, given.instance), find_view_template(tx, given.template_id)
    applicable = object_of(place.whole)["applicable_template_ids"]
    if applicable and graph.template_id not in applicable:
        message = (
            f"the template applies only to graphs of the templates {', '.join(applicable)}, and "
            f"graph {graph.id!r} has {graph.template_id or 'none'}"
        )
        raise InvalidInput(message, [Fault("/template_id", "not_applicable", message)])
    view = View(given.id or context.new_guid(), given.template_id, graph.id, context.now_ms)
    if tx.recipes.graph.view(view.id) is not None:
        raise NameTaken(f"a view already has the id {view.id!r}; use another id")
    tx.recipes.graph.insert_view(view)
    tx.feed.add("view.created", view.id)
    return view_view(view)
