"""views.execute: reads the rows of a view."""

from dataclasses import dataclass
from typing import Any

from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_read import take_page
from memrelay.memory.recipes.graph.names import SearchId
from memrelay.memory.recipes.graph.views import (
    count_rows,
    find_view,
    limited,
    query_of,
    read_rows,
)
from memrelay.memory.sqlite.store import Transaction


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
