"""Views: a view template bound to a graph, and their execution."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment, format_time
from memrelay.memory.engine.versions import State, StoredRecord
from memrelay.memory.errors import RecordNotFound, SearchTooLong
from memrelay.memory.models.recipes.graph.stored import object_of
from memrelay.memory.models.recipes.graph.table import View
from memrelay.memory.models.recipes.graph.view_query import Query, parse_query
from memrelay.memory.models.recipes.graph.view_sql import columns_of, compile_query
from memrelay.memory.models.recipes.objects import find_object
from memrelay.memory.models.recipes.records import RecipeTables
from memrelay.memory.records.view import version_of


@dataclass(frozen=True, slots=True)
class ViewTemplateView:
    """A view template."""

    id: str
    name: str
    description: str
    query: dict[str, Any]
    """The query: match, patterns, where, orderBy, skip, limit, return."""
    applicable_template_ids: tuple[str, ...]
    """The graph templates to which views may apply it; none for any graph."""
    created_at: Moment
    updated_at: Moment
    version: str
    """Changes with every write; a write can require it."""


@dataclass(frozen=True, slots=True)
class ViewView:
    """A view."""

    id: str
    template_id: str
    """The id of the view template."""
    instance_id: str
    """The id of the graph."""
    created_at: Moment


class ViewRow(NamedTuple):
    """A row of a view: the id of the matched node, and the values by column."""

    node: str
    values: dict[str, Any]


def view_template_view(state: State) -> ViewTemplateView:
    """Return the view of a stored view template."""
    value = object_of(state)
    return ViewTemplateView(
        state.key or "",
        value["name"],
        value["description"],
        value["query"],
        tuple(value["applicable_template_ids"]),
        format_time(state.created_at),
        format_time(state.updated_at),
        version_of(state.record, state.extras),
    )


def view_view(view: View) -> ViewView:
    """Return the interface's form of a view."""
    return ViewView(view.id, view.template, view.instance, format_time(view.created_at))


def find_view_template(tx: Transaction, id_: str) -> StoredRecord:
    """Return a stored view template. Raises RecordNotFound."""
    return find_object(tx.table(RecipeTables).view_templates, id_)


def find_view(tx: Transaction, id_: str) -> View:
    """Return a view. Raises RecordNotFound."""
    view = tx.table(RecipeTables).graph.view(id_)
    if view is None:
        raise RecordNotFound(f"no view has the id {id_!r}; create it with views.create")
    return view


def query_of(tx: Transaction, view: View) -> Query:
    """Return the query of a view. Raises RecordNotFound: its template does not exist."""
    return parse_query(object_of(find_view_template(tx, view.template).state)["query"])


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


def read_rows(
    tx: Transaction,
    view: View,
    query: Query,
    *,
    node: str | None = None,
    window: tuple[int, int] | None = None,
) -> Iterator[ViewRow]:
    """Yield the rows of a view, in its order. `window` is (skip, limit), by default the query's.

    With `node`, only rows of that matched node.
    """
    compiled = compile_query(query, view.instance, node)
    columns, bound = columns_of(query)
    skip, limit = window or (query.skip, query.limit)
    sql = f"SELECT n0.key, {columns}{compiled.source}{compiled.order} LIMIT ? OFFSET ?"
    values = (*bound, *compiled.values, *compiled.order_values, limit, skip)
    names = [name for _, name in query.columns]
    for key, *row in tx.table(RecipeTables).graph.rows(sql, values):
        pairs = zip(names, row[::2], row[1::2], strict=True)
        yield ViewRow(key, {name: _json_value(type_, value) for name, type_, value in pairs})


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


def _json_value(type_: str | None, value: Any) -> Any:
    """Return a value of SQLite's JSON functions as JSON."""
    if type_ in ("true", "false"):
        return type_ == "true"
    return orjson.loads(value) if type_ in ("object", "array") else value
