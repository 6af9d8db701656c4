"""views.list: lists views of graphs."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_list import MOST
from memrelay.memory.operations.records_read import take_page
from memrelay.memory.recipes.graph.views import ViewView, view_view
from memrelay.memory.recipes.sources.instances import find_id
from memrelay.memory.sqlite.store import Transaction

OptionalId = Annotated[str, Field(max_length=128)]


@dataclass(frozen=True, slots=True)
class ListViews:
    """The views to list."""

    instance: OptionalId = ""
    """Only views of this graph: its id or name."""
    template_id: OptionalId = ""
    """Only views of this view template."""


@dataclass(frozen=True, slots=True)
class Views:
    """Views, the newest first."""

    items: tuple[ViewView, ...]


@operation("views.list", access="read", mutates=False, home="recipes")
def list_views(tx: Transaction, wanted: ListViews, context: Context) -> Views:
    """List up to 1,000 views, the newest first.

    Raises RecordNotFound: when the graph does not exist.
    """
    instance = find_id(tx, "graph", wanted.instance) if wanted.instance else ""
    found = tx.recipes.graph.views(template=wanted.template_id, instance=instance)
    return Views(tuple(take_page(map(view_view, found), MOST, context.result_bytes)[0]))
