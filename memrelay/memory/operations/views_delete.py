"""views.delete: deletes a view of a graph."""

from dataclasses import dataclass

from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.graph.names import SearchId
from memrelay.memory.recipes.graph.views import find_view
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class DeleteView:
    """The view to delete."""

    id: SearchId
    """The id of the view."""


@operation("views.delete", access="delete", mutates=True, home="recipes")
def delete(tx: Transaction, target: DeleteView, context: Context) -> None:
    """Delete a view. Its template and its graph stay.

    Raises RecordNotFound: when the view does not exist.
    """
    view = find_view(tx, target.id)
    tx.recipes.graph.delete_view(view.id)
    ids = {"instance_id": view.instance, "template_id": view.template}
    tx.feed.add("view.deleted", view.id, ids)
