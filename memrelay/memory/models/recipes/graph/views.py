"""Views: a view template bound to a graph, and their execution."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import orjson
from pydantic import Field

from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment, format_time
from memrelay.memory.errors import Fault, InvalidInput, NameTaken, RecordNotFound, SearchTooLong
from memrelay.memory.models.recipes.graph.names import NewId, SearchId
from memrelay.memory.models.recipes.graph.templates import VIEW_TEMPLATES
from memrelay.memory.models.recipes.graph.view_query import (
    Query,
    compile_columns,
    compile_query,
    parse_query,
)
from memrelay.memory.models.recipes.instances import find_graph, find_id
from memrelay.memory.models.recipes.keyed_kind import read_object
from memrelay.memory.models.recipes.table import RecipeTables, View
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.paging import MOST, take_page

OptionalId = Annotated[str, Field(max_length=128)]


@dataclass(frozen=True, slots=True)
class ViewView:
    """A view."""

    id: str
    template_id: str
    """The id of the view template."""
    instance_id: str
    """The id of the graph."""
    created_at: Moment


@dataclass(frozen=True, slots=True)
class CreateView:
    """The view to create."""

    template_id: SearchId
    """The id of the view template."""
    instance: SearchId
    """The id or name of the graph."""
    id: NewId = ""
    """The id: letters, digits, dots, dashes and underscores. By default generated."""


@operation("graph_views.create", access="write", mutates=True, store="recipes")
def create(tx: Transaction, new: CreateView, context: Context) -> ViewView:
    """Bind a view template to a graph.

    Raises RecordNotFound: when the template or the graph does not exist.
    Raises InvalidInput: when the template does not apply to the graph.
    Raises NameTaken: when another view has the id.
    """
    graph, template = find_graph(tx, new.instance), VIEW_TEMPLATES.find(tx, new.template_id)
    applicable = read_object(template.state)["applicable_template_ids"]
    if applicable and graph.template_id not in applicable:
        message = (
            f"the template applies only to graphs of the templates {', '.join(applicable)}, and "
            f"graph {graph.id!r} has {graph.template_id or 'none'}"
        )
        raise InvalidInput(message, [Fault("/template_id", "not_applicable", message)])
    view = View(new.id or context.new_guid(), new.template_id, graph.id, context.now_ms)
    if tx.table(RecipeTables).graph.view(view.id) is not None:
        raise NameTaken(f"a view already has the id {view.id!r}; use another id")
    tx.table(RecipeTables).graph.insert_view(view)
    tx.records.announce("view.created", view.id)
    return view_view(view)


@dataclass(frozen=True, slots=True)
class GetView:
    """The view to read."""

    id: SearchId
    """The id of the view."""


@operation("graph_views.get", access="read", mutates=False, store="recipes")
def get(tx: Transaction, query: GetView, context: Context) -> ViewView:
    """Return a view, without its rows.

    Raises RecordNotFound: when the view does not exist.
    """
    return view_view(find_view(tx, query.id))


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


@operation("graph_views.list", access="read", mutates=False, store="recipes")
def list_views(tx: Transaction, query: ListViews, context: Context) -> Views:
    """List up to 1,000 views, the newest first.

    Raises RecordNotFound: when the graph does not exist.
    """
    instance = find_id(tx, "graph", query.instance) if query.instance else ""
    views = tx.table(RecipeTables).graph.views(template=query.template_id, instance=instance)
    return Views(tuple(take_page(map(view_view, views), MOST, context.result_bytes)[0]))


@dataclass(frozen=True, slots=True)
class DeleteView:
    """The view to delete."""

    id: SearchId
    """The id of the view."""


@operation("graph_views.delete", access="delete", mutates=True, store="recipes")
def delete(tx: Transaction, target: DeleteView, context: Context) -> None:
    """Delete a view. Its template and its graph stay.

    Raises RecordNotFound: when the view does not exist.
    """
    view = find_view(tx, target.id)
    tx.table(RecipeTables).graph.delete_view(view.id)
    ids = {"instance_id": view.instance, "template_id": view.template}
    tx.records.announce("view.deleted", view.id, ids)


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


@operation("graph_views.execute", access="read", mutates=False, store="recipes")
def execute(tx: Transaction, target: ExecuteView, context: Context) -> ViewResult:
    """Return the rows of a view.

    Raises RecordNotFound: when the view does not exist.
    Raises SearchTooLong: when the view exceeds the time limit.
    """
    view = find_view(tx, target.id)
    query = read_query(tx, view)
    with limited(tx, f"the view {view.id!r}"):
        values = (row.values for row in read_rows(tx, view, query))
        rows, was_cut = take_page(values, query.limit, context.result_bytes)
        is_last = not was_cut and 0 < len(rows) < query.limit
        # The last page gives the number of all rows.
        total = query.skip + len(rows) if is_last else count_rows(tx, view, query)
    return ViewResult(tuple(query.columns), tuple(rows), total)


class ViewRow(NamedTuple):
    """A row of a view: the id of the matched node, and the values by column."""

    node: str
    values: dict[str, Any]


def view_view(view: View) -> ViewView:
    return ViewView(view.id, view.template, view.instance, format_time(view.created_at))


def find_view(tx: Transaction, id_: str) -> View:
    """Return a view. Raises RecordNotFound."""
    view = tx.table(RecipeTables).graph.view(id_)
    if view is None:
        raise RecordNotFound(f"no view has the id {id_!r}; create it with graph_views.create")
    return view


def read_query(tx: Transaction, view: View) -> Query:
    """Return the query of a view. Raises RecordNotFound: its template does not exist."""
    return parse_query(read_object(VIEW_TEMPLATES.find(tx, view.template).state)["query"])


@contextmanager
def limited(tx: Transaction, what: str) -> Iterator[None]:
    """Limit the time of the reads of a graph. Raises SearchTooLong. `what` names the read."""
    try:
        with tx.bounded_search():
            yield
    except SearchTooLong as error:
        raise SearchTooLong(
            f"{what} takes longer than {tx.time_limit.seconds:g} s, the limit; name the kinds of "
            "nodes and edges, or use fewer patterns"
        ) from error


def read_rows(tx: Transaction, view: View, query: Query) -> Iterator[ViewRow]:
    """Yield the rows of a view, in its order."""
    compiled = compile_query(query, view.instance)
    columns, bound = compile_columns(query)
    sql = f"SELECT n0.key, {columns}{compiled.source}{compiled.order} LIMIT ? OFFSET ?"
    values = (*bound, *compiled.values, *compiled.order_values, query.limit, query.skip)
    names = [*query.columns]
    for key, *row in tx.table(RecipeTables).graph.rows(sql, values):
        pairs = zip(names, row[::2], row[1::2], strict=True)
        yield ViewRow(key, {name: _json_value(type_, value) for name, type_, value in pairs})


def _json_value(type_: str | None, value: Any) -> Any:
    """Return a value of SQLite's JSON functions as JSON."""
    if type_ in ("true", "false"):
        return type_ == "true"
    return orjson.loads(value) if type_ in ("object", "array") else value


def count_rows(tx: Transaction, view: View, query: Query) -> int:
    """Return the number of rows of a view, without its `skip` and `limit`."""
    compiled = compile_query(query, view.instance)
    rows = tx.table(RecipeTables).graph.rows(f"SELECT count(*){compiled.source}", compiled.values)
    return int(next(rows)[0])


def last_nodes(tx: Transaction, view: View, query: Query, node: str) -> Iterator[str]:
    """Yield the ids of the nodes at which the last pattern ends, for one matched node."""
    compiled = compile_query(query, view.instance, node)
    last = query.patterns[-1].end
    sql = f"SELECT n{last}.key{compiled.source}{compiled.order}"
    rows = tx.table(RecipeTables).graph.rows(sql, (*compiled.values, *compiled.order_values))
    return (id_ for (id_,) in rows)
