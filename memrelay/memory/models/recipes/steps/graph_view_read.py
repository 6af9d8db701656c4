"""The step `graph_view_read`."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memrelay.memory.engine.store import Transaction
from memrelay.memory.errors import RecordNotFound
from memrelay.memory.models.recipes.execution.items import item_text
from memrelay.memory.models.recipes.graph.table import View
from memrelay.memory.models.recipes.graph.view_query import Query
from memrelay.memory.models.recipes.graph.views import find_view, limited, query_of, read_rows
from memrelay.memory.models.recipes.step import Items, StepCall, StepFailed, step

ViewId = Annotated[str, Field(min_length=1, max_length=128)]


@dataclass(frozen=True, slots=True)
class ViewRead:
    """Parameters of `graph_view_read`."""

    view_id: ViewId
    """The id of the view."""


@step("graph_view_read", "retrieval")
def read_view(params: ViewRead, call: StepCall) -> Items:
    """Read the rows of a view of a graph."""
    view, query = find_query(call.tx, params.view_id)
    items: Items = []
    with limited(call.tx, f"the view {view.id!r}"):
        for node, values in read_rows(call.tx, view, query):
            place = {"id": node, "instance": view.instance}
            items.append({"text": item_text(values), **values, **place})
    return items


def find_query(tx: Transaction, view_id: str) -> tuple[View, Query]:
    """Return a view and its query. Raises StepFailed."""
    try:
        view = find_view(tx, view_id)
        return view, query_of(tx, view)
    except RecordNotFound as error:
        raise StepFailed("unknown_view", str(error)) from error
