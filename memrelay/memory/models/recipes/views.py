"""views.create: binds a view template to a graph."""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from memrelay.memory.engine.store import Transaction
from memrelay.memory.errors import Fault, InvalidInput, NameTaken
from memrelay.memory.models.recipes.graph.instances import find_graph
from memrelay.memory.models.recipes.graph.names import NewId, SearchId
from memrelay.memory.models.recipes.graph.stored import object_of
from memrelay.memory.models.recipes.graph.table import View
from memrelay.memory.models.recipes.graph.views import (
    ViewView,
    count_rows,
    find_view,
    find_view_template,
    limited,
    query_of,
    read_rows,
    view_view,
)
from memrelay.memory.models.recipes.instances import find_id
from memrelay.memory.models.recipes.records import RecipeTables
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.reading import MOST, take_page

OptionalId = Annotated[str, Field(max_length=128)]


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
    applicable = object_of(place.state)["applicable_template_ids"]
    if applicable and graph.template_id not in applicable:
        message = (
            f"the template applies only to graphs of the templates {', '.join(applicable)}, and "
            f"graph {graph.id!r} has {graph.template_id or 'none'}"
        )
        raise InvalidInput(message, [Fault("/template_id", "not_applicable", message)])
    view = View(given.id or context.new_guid(), given.template_id, graph.id, context.now_ms)
    if tx.table(RecipeTables).graph.view(view.id) is not None:
        raise NameTaken(f"a view already has the id {view.id!r}; use another id")
    tx.table(RecipeTables).graph.insert_view(view)
    tx.feed.add("view.created", view.id)
    return view_view(view)


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
    found = tx.table(RecipeTables).graph.views(template=wanted.template_id, instance=instance)
    return Views(tuple(take_page(map(view_view, found), MOST, context.result_bytes)[0]))


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
    tx.table(RecipeTables).graph.delete_view(view.id)
    ids = {"instance_id": view.instance, "template_id": view.template}
    tx.feed.add("view.deleted", view.id, ids)


@dataclass(frozen=True, slots=True)
class ExecuteView:
    """The view to execute."""

    id: SearchId
    """The id of the view."""


@dataclass(frozen=True, slots=True)
class ViewResult:
    """The rows of a view."""

    columns: tuple[str, ...]
    """The names of the columns."""
    rows: tuple[dict[str, Any], ...]
    """The values by column; null for a missing one. Fewer rows than `limit` if they are long."""
    total: int
    """The number of rows without `skip` and `limit`."""


@operation("views.execute", access="read", mutates=False, home="recipes")
def execute(tx: Transaction, wanted: ExecuteView, context: Context) -> ViewResult:
    """Return the rows of a view.

    Raises RecordNotFound: when the view does not exist.
    Raises SearchTooLong: when the view exceeds the time limit.
    """
    view = find_view(tx, wanted.id)
    query = query_of(tx, view)
    with limited(tx, f"the view {view.id!r}"):
        found = (row.values for row in read_rows(tx, view, query))
        rows, was_cut = take_page(found, query.limit, context.result_bytes)
        is_last = not was_cut and 0 < len(rows) < query.limit
        # The last page gives the number of all rows.
        total = query.skip + len(rows) if is_last else count_rows(tx, view, query)
    return ViewResult(tuple(name for _, name in query.columns), tuple(rows), total)
