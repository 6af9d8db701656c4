"""The operations on the declared views of a store: define, list, read and delete them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import orjson
from pydantic import Field

from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment, format_time
from memrelay.memory.errors import RecordNotFound, Refused, ResultTooLarge
from memrelay.memory.models.views.table import ViewTable
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.reading import record_size
from memrelay.memory.records.view import RecordView
from memrelay.memory.records.view import view as view_record
from memrelay.memory.view_rules import MOST_VIEWS, View

ViewName = Annotated[str, Field(min_length=1, max_length=100)]
Part = Annotated[str, Field(max_length=512)]
# Records and parts of one answer.
MOST_SHOWN = 100
Shown = Annotated[int, Field(ge=1, le=MOST_SHOWN)]


@dataclass(frozen=True, slots=True)
class DeclaredView:
    """A view of a store."""

    name: str
    view: dict[str, Any]
    """The view as it was given: `name`, `match`, `per`, `show`."""
    declared_by: str
    """The pipeline whose bundle declares it; empty for one of views.define."""
    changed_at: Moment


@dataclass(frozen=True, slots=True)
class ListViews:
    """The views of the store."""


@dataclass(frozen=True, slots=True)
class ViewList:
    """The views by their names."""

    items: tuple[DeclaredView, ...]


@operation("views.list", access="read", mutates=False)
def list_views(tx: Transaction, request: ListViews, context: Context) -> ViewList:
    """List the views of a store."""
    return ViewList(
        tuple(
            DeclaredView(
                one.name, orjson.loads(one.view), one.pipeline, format_time(one.changed_at)
            )
            for one in tx.table(ViewTable).all()
        )
    )


@dataclass(frozen=True, slots=True)
class DefineView:
    """The view to add, or to put in the place of the one with its name."""

    view: View
    """The view (docs/views.md): `{"name", "match": {"kind", "filter", "pattern"}, "per",
    "show"}`."""


@operation("views.define", access="admin", mutates=True)
def define_view(tx: Transaction, request: DefineView, context: Context) -> None:
    """Add a view, or replace the one with its name.

    It is computed from all records now, and kept with each change from then on.

    Raises Refused: when a bundle declares one with this name, or the store has 20.
    """
    table, name = tx.table(ViewTable), request.view["name"]
    _refuse_declared(table, name)
    names = [one.name for one in table.all() if not one.pipeline]
    if name not in names and len(names) >= MOST_VIEWS:
        raise Refused(f"a store has at most {MOST_VIEWS} views; delete one first")
    table.put(request.view, context.now_ms)


@dataclass(frozen=True, slots=True)
class DeleteView:
    """The view to delete."""

    id: ViewName
    """The name of the view."""


@operation("views.delete", access="admin", mutates=True)
def delete_view(tx: Transaction, request: DeleteView, context: Context) -> None:
    """Delete a view. Its records stay.

    Raises RecordNotFound: when there is none with the name. Raises Refused: when a bundle declares
    it.
    """
    table = tx.table(ViewTable)
    _refuse_declared(table, request.id)
    if not table.delete(request.id):
        raise _not_found(request.id)


def _refuse_declared(table: ViewTable, name: str) -> None:
    for one in table.all():
        if one.pipeline and one.name == name:
            raise Refused(
                f"the bundle of pipeline {one.pipeline} declares the view {name!r}; change the "
                "bundle and deploy it, or choose another name"
            )


def _not_found(name: str) -> RecordNotFound:
    return RecordNotFound(f"no view has the name {name!r}; views.list has them")


@dataclass(frozen=True, slots=True)
class GetView:
    """The view to read, and the part of it."""

    id: ViewName
    """The name of the view."""
    of: Part = ""
    """The part: a value of the field `per` of the view, such as an owner. Empty for a view without
    `per`."""
    limit: Shown = 20
    """The maximum number of records."""


@dataclass(frozen=True, slots=True)
class ViewPart:
    """A part of a view."""

    name: str
    """The name of the view."""
    of: str
    """The part; empty for a view without `per`."""
    show: str
    """`latest`, `top` or `count`."""
    count: int
    """How many records belong to the part."""
    items: tuple[RecordView, ...]
    """The records that it shows: none for `count`."""
    has_more: bool
    """Whether it has more records to show."""


@operation("views.get", access="read", mutates=False, takes_as_of=True)
def get_view(tx: Transaction, request: GetView, context: Context) -> ViewPart:
    """Return a part of a view, as it is after all earlier writes. A part without records is empty.

    `latest` shows the newest record of each value, in the order of the values; `top` the first ones
    in its order.

    Raises RecordNotFound: when no view has the name. Raises Refused: when a view with `per` is read
    without `of`, or one without it with `of`. Raises ResultTooLarge: when a record does not fit
    into an answer.
    """
    table = tx.table(ViewTable)
    if (found := table.find(request.id)) is None:
        raise _not_found(request.id)
    view = found[1]
    if ("per" in view) != bool(request.of):
        raise Refused(
            f"the view {request.id!r} is divided by {view['per']}: name the part in `of`; "
            "views.parts lists them"
            if "per" in view
            else f"the view {request.id!r} has no `per`; leave `of` out"
        )
    part, _ = _read_part(table, found, request.of, request.limit, context.result_bytes)
    if part.has_more and not part.items:
        raise ResultTooLarge(
            f"the first record of the view {request.id!r} does not fit into an answer of "
            f"{context.result_bytes} bytes; read it with records.get in parts"
        )
    return part


def _read_part(
    table: ViewTable, found: tuple[int, Mapping[str, Any]], of: str, limit: int, most_bytes: int
) -> tuple[ViewPart, int]:
    """Return (a part with the records that fit, their bytes)."""
    number, view = found
    show = view["show"] if view["show"] == "count" else next(iter(view["show"]))
    taken, size, has_more = list[RecordView](), 0, False
    for pair in table.records(number, view, of, limit + 1):
        size_with = size + record_size(pair)
        if has_more := len(taken) == limit or size_with > most_bytes:
            break
        size = size_with
        taken.append(view_record(*pair))
    return ViewPart(view["name"], of, show, table.count(number, of), tuple(taken), has_more), size


@dataclass(frozen=True, slots=True)
class ListParts:
    """The parts of a view to list."""

    id: ViewName
    """The name of the view."""
    beginning: Part = ""
    """Only parts that begin with this text."""
    limit: Shown = 100
    """The maximum number of parts."""
    cursor: Part = ""
    """The `next_cursor` of the previous page."""


@dataclass(frozen=True, slots=True)
class PartCount:
    """A part of a view."""

    of: str
    count: int
    """How many records belong to it."""


@dataclass(frozen=True, slots=True)
class PartList:
    """The parts of a view, in the order of their values."""

    items: tuple[PartCount, ...]
    next_cursor: str | None
    """For the next page; null at the end."""


@operation("views.parts", access="read", mutates=False)
def list_parts(tx: Transaction, request: ListParts, context: Context) -> PartList:
    """List the parts of a view: the people of a view `per` owner, for example.

    Raises RecordNotFound: when no view has the name.
    """
    table = tx.table(ViewTable)
    if (found := table.find(request.id)) is None:
        raise _not_found(request.id)
    rows = table.parts(found[0], request.cursor, request.beginning, request.limit + 1)
    parts = [PartCount(*row) for row in rows]
    has_more, taken = len(parts) > request.limit, parts[: request.limit]
    return PartList(tuple(taken), taken[-1].of if has_more else None)


@dataclass(frozen=True, slots=True)
class About:
    """The part of all views to read."""

    of: Annotated[str, Field(min_length=1, max_length=512)]
    """The part: a person, for example."""
    limit: Shown = 10
    """The maximum number of records of each view."""


@dataclass(frozen=True, slots=True)
class EverythingAbout:
    """One part of every view that has it."""

    of: str
    views: tuple[ViewPart, ...]
    """By their names. Views without the part are left out."""


@operation("views.about", access="read", mutates=False, takes_as_of=True)
def read_about(tx: Transaction, request: About, context: Context) -> EverythingAbout:
    """Return everything about a person or another part: what each view of the store has of it.

    An answer that would become too large leaves out later records; their view `has_more`.
    """
    table, left = tx.table(ViewTable), context.result_bytes
    parts = list[ViewPart]()
    for one in table.all():
        found = table.find(one.name)
        if found is None or "per" not in found[1] or not table.count(found[0], request.of):
            continue
        part, size = _read_part(table, found, request.of, request.limit, left)
        left -= size
        parts.append(part)
    return EverythingAbout(request.of, tuple(parts))
