"""events.query: finds and aggregates events."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.sources.event_table import NEWEST_FIRST, Event
from memrelay.memory.recipes.sources.events import (
    ALIASES,
    KNOWN,
    EventName,
    event_object,
    find_field,
)
from memrelay.memory.recipes.sources.instances import InstanceName, find_id
from memrelay.memory.recipes.sources.query import (
    Offset,
    OrderBy,
    Select,
    pick_fields,
    take_within,
    total_of,
)
from memrelay.memory.recipes.sources.reduce import Reduce, reduce_events
from memrelay.memory.recipes.sources.where import Clause, Where, compile_where, require_field
from memrelay.memory.sqlite.store import Transaction

MOST_CONDITIONS = 20


@dataclass(frozen=True, slots=True)
class QueryEvents:
    """A query over events."""

    instance: InstanceName
    """The id or the name of the event log."""
    stream: EventName | None = None
    """Only events of this stream."""
    where: Annotated[tuple[Where, ...], Field(max_length=MOST_CONDITIONS)] = ()
    """Conditions on fields of events such as `payload.status`, all of which must hold."""
    select: Select = ()
    """The fields to return; by default all."""
    order_by: OrderBy | None = None
    """The order; by default the newest first."""
    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    """The maximum number of events."""
    offset: Offset = 0
    """The number of events to skip."""
    reduce: Reduce | None = None
    """An aggregation of all events that the conditions select. It returns no events."""


@dataclass(frozen=True, slots=True)
class EventPage:
    """The events that a query found."""

    events: tuple[dict[str, Any], ...]
    """Events, with only the selected fields if any are selected."""
    aggregation: Any
    """The value of `reduce`, or one value for each group; null without `reduce`."""
    total: int
    """The number of events on all pages."""
    limit: int
    offset: int


@operation("events.query", access="read", mutates=False, home="recipes")
def query(tx: Transaction, wanted: QueryEvents, context: Context) -> EventPage:
    """Find events by their fields, or aggregate them.

    Raises RecordNotFound: when the log does not exist.
    Raises InvalidInput: when a condition, the order or the aggregation is invalid.
    Raises ResultTooLarge: when the result does not fit into an answer.
    Raises SearchTooLong: when the query exceeds the time limit.
    """
    where, order = _where(wanted), _order(wanted.order_by)
    id_, window = find_id(tx, "events", wanted.instance), (wanted.limit, wanted.offset)
    table = tx.recipes.events
    with tx.bounded_search():
        if wanted.reduce is not None:
            value = reduce_events(table, id_, where, wanted.reduce, context.result_bytes)
            return EventPage((), value, table.count(id_, where), *window)
        found = _views(id_, table.select(id_, where, window, order), wanted.select)
        events = take_within(found, context.result_bytes)
        total = total_of(len(events), *window)
        if total is None:
            total = table.count(id_, where)
    return EventPage(tuple(events), None, total, *window)


def _where(wanted: QueryEvents) -> Clause:
    sql, values = compile_where(wanted.where, find_field, KNOWN)
    return (
        (sql, values)
        if wanted.stream is None
        else (f"stream = ? AND {sql}", (wanted.stream, *values))
    )


def _order(wanted: OrderBy | None) -> Clause:
    if wanted is None:
        return NEWEST_FIRST, ()
    field, direction = (
        require_field(wanted.field, "/order_by/field", find_field, KNOWN),
        wanted.direction,
    )
    if field.sort == "json":
        value = field.value_sql
        return f"{value} IS NULL, {value} {direction}, row {direction}", (
            *field.bound,
            *field.bound,
        )
    return f"{field.sql} {direction}, row {direction}", ()


def _views(instance: str, events: Iterator[Event], select: Select) -> Iterator[dict[str, Any]]:
    for event in events:
        yield pick_fields(event_object(instance, event), select, ALIASES)
