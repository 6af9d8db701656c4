"""views.get: reads a view of a graph."""

from dataclasses import dataclass

from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.graph.names import SearchId
from memrelay.memory.recipes.graph.views import ViewView, find_view, view_view
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class GetView:
    """The view to read."""

    id: SearchId
    """The id of the view."""


@operation("views.get", access="read", mutates=False, home="recipes")
def get(tx: Transaction, wanted: GetView, context: Context) -> ViewView:
    """Return a view, without its rows.

    Raises RecordNotFound: when the view does not exist.
    """
    return view_view(find_view(tx, wanted.id))
