"""Events of event logs: append, query and aggregate them."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

import orjson
from pydantic import Field

from memrelay.memory.engine.feed import ChangeType
from memrelay.memory.engine.filter_sql import Clause, SqlField
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import LAST_MS, Moment, format_time, parse_ms
from memrelay.memory.errors import Fault, ResultTooLarge
from memrelay.memory.field_descriptions import nested_input
from memrelay.memory.models.recipes.faults import FaultList, refusal
from memrelay.memory.models.recipes.instances import InstanceName, ensure_id, find_id
from memrelay.memory.models.recipes.queries import (
    FieldName,
    Offset,
    OrderBy,
    Select,
    Where,
    compile_where,
    find_total,
    from_json,
    json_field,
    pick_fields,
    require_field,
    take_within,
    to_json,
)
from memrelay.memory.models.recipes.table import (
    EVENT_COLUMNS,
    NEWEST_FIRST,
    Event,
    EventTable,
    RecipeTables,
)
from memrelay.memory.operations import Context, operation

MOST_GROUPS = 1000
# Values that `collect` returns.
MOST_COLLECTED = 1000
NUMERIC = ("sum", "avg", "min", "max")
# SQL of the last and the first event of each group.
ENDS = {"last": "at DESC, row DESC", "first": "at, row"}
EMPTY: dict[str, Any] = {"collect": [], "count": 0, "exists": False, "sum": 0}
# A stream or a type.
EventName = Annotated[str, Field(min_length=1, max_length=512, pattern=r"^[^\x00]*$")]
FIELD_COLUMNS = {
    "id": SqlField("id", "text"),
    "stream_id": SqlField("stream", "text"),
    "event_type": SqlField("type", "text"),
    "timestamp": SqlField("at", "time"),
    "sequence_number": SqlField("sequence", "number"),
    "payload": SqlField("payload", "data", "$"),
    "metadata": SqlField("metadata", "data", "$"),
}
ALIASES = {
    "streamId": "stream_id",
    "eventType": "event_type",
    "sequenceNumber": "sequence_number",
    "sequence": "sequence_number",
}
# For messages about unknown fields.
KNOWN = (*FIELD_COLUMNS, "payload.KEY", "metadata.KEY")
MOST_EVENTS = 1000
MOST_CONDITIONS = 20


@dataclass(frozen=True, slots=True)
class EventView:
    """An event."""

    id: str
    instance_id: str
    stream_id: str
    event_type: str
    payload: Any
    metadata: Any
    timestamp: Moment
    """When it happened."""
    sequence_number: int
    """Its position in the stream, from 1."""


@nested_input
@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event to append."""

    stream_id: EventName
    """The stream. Each stream counts its events from 1."""
    event_type: EventName
    """The type."""
    payload: Any
    """The data of the event: any JSON, at most 256 KiB."""
    metadata: dict[str, Any] | None = None
    """Further data; by default an empty object."""
    timestamp: str | int | None = None
    """When it happened: RFC 3339 or Unix ms; by default now."""


@dataclass(frozen=True, slots=True)
class AppendEvents:
    """Events to append."""

    instance: InstanceName
    """The id or the name of the event log."""
    events: Annotated[tuple[NewEvent, ...], Field(min_length=1, max_length=MOST_EVENTS)]
    """The events, in their order."""
    auto_create: bool = False
    """Whether a missing log is created."""


@dataclass(frozen=True, slots=True)
class EventsAppended:
    """The events that were appended."""

    instance_id: str
    events: tuple[EventView, ...]


@operation("events.append", access="append", mutates=True, store="recipes")
def append(tx: Transaction, batch: AppendEvents, context: Context) -> EventsAppended:
    """Append events, all or none. Events never change.

    Raises RecordNotFound: when the log does not exist and is not created.
    Raises InvalidInput: when a timestamp is invalid.
    Raises BadValue: when JSON cannot express a payload, or it is nested too deeply.
    Raises ValueTooLarge: when a payload or metadata is too large.
    """
    times, faults = list[int](), FaultList()
    for index, new in enumerate(batch.events):
        moment = context.now_ms if new.timestamp is None else parse_ms(str(new.timestamp))
        if moment is None or not 0 <= moment <= LAST_MS:
            rule = "timestamp is a time like 2026-11-22T05:00:00Z or Unix ms, from 1970 to 9999"
            faults.add(("events", index, "timestamp"), "bad_type", rule)
        else:
            times.append(moment)
    faults.raise_any("the request")
    texts = [(to_json(new.payload), to_json(new.metadata or {})) for new in batch.events]
    id_ = ensure_id(tx, "events", batch.instance, context, create=batch.auto_create)
    events, last = list[Event](), dict[str, int]()
    for new, (payload, metadata), at in zip(batch.events, texts, times, strict=True):
        stream = new.stream_id
        if stream not in last:
            last[stream] = tx.table(RecipeTables).events.last_sequence(id_, stream)
        last[stream] += 1
        events.append(
            Event(context.new_guid(), stream, last[stream], new.event_type, payload, metadata, at)
        )
    tx.table(RecipeTables).events.append(id_, events)
    change: ChangeType = "event.appended" if len(events) == 1 else "events.appended"
    tx.records.announce(change, id_, {"ids": [event.id for event in events]})
    return EventsAppended(id_, tuple(view_event(id_, event) for event in events))


@nested_input
@dataclass(frozen=True, slots=True)
class Reduce:
    """An aggregation of the events that a query finds."""

    type: Literal["count", "sum", "avg", "min", "max", "collect", "last", "first", "exists"]
    """The computation. last and first return the event, or its field, by time."""
    field: FieldName | None = None
    """The field. sum, avg, min and max need it and use only its numbers; count counts events that
    have it."""
    group_by: FieldName | None = None
    """Compute one value for each value of this field."""


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


@operation("events.query", access="read", mutates=False, store="recipes")
def query_events(tx: Transaction, query: QueryEvents, context: Context) -> EventPage:
    """Find events by their fields, or aggregate them.

    Raises RecordNotFound: when the log does not exist.
    Raises InvalidInput: when a condition, the order or the aggregation is invalid.
    Raises ResultTooLarge: when the result does not fit into an answer.
    Raises SearchTooLong: when the query exceeds the time limit.
    """
    where = compile_where(query.where, find_field, KNOWN)
    if query.stream is not None:
        where = f"stream = ? AND {where[0]}", (query.stream, *where[1])
    order = _order(query.order_by)
    id_, window = find_id(tx, "events", query.instance), (query.limit, query.offset)
    table = tx.table(RecipeTables).events
    with tx.bounded_search():
        if query.reduce is not None:
            value = reduce_events(table, id_, where, query.reduce, context.result_bytes)
            return EventPage((), value, table.count(id_, where), *window)
        rows = table.select(id_, where, window, order)
        objects = (pick_fields(event_object(id_, row), query.select, ALIASES) for row in rows)
        events = take_within(objects, context.result_bytes)
        total = find_total(len(events), *window)
        if total is None:
            total = table.count(id_, where)
    return EventPage(tuple(events), None, total, *window)


def _order(order_by: OrderBy | None) -> Clause:
    if order_by is None:
        return NEWEST_FIRST, ()
    direction = order_by.direction
    field = require_field(order_by.field, "/order_by/field", find_field, KNOWN)
    if field.type != "data":
        return f"{field.sql} {direction}, row {direction}", ()
    value = field.value_sql
    sql = f"{value} IS NULL, {value} {direction}, row {direction}"
    return sql, (*field.bound, *field.bound)


def view_event(instance: str, event: Event) -> EventView:
    """Return the view of an event. Raises RecordDamaged."""
    name = f"event {event.id}"
    return EventView(
        event.id,
        instance,
        event.stream,
        event.type,
        from_json(event.payload, name),
        from_json(event.metadata, name),
        format_time(event.at),
        event.sequence,
    )


def event_object(instance: str, event: Event) -> dict[str, Any]:
    """Return an event as an object. Raises RecordDamaged."""
    return asdict(view_event(instance, event))


def find_field(name: str) -> SqlField | None:
    """Return the field of events with that name, such as `payload.service`, None for none."""
    if (column := FIELD_COLUMNS.get(ALIASES.get(name, name))) is not None:
        return column
    column_name, _, dotted = name.partition(".")
    return json_field(column_name, dotted) if column_name in ("payload", "metadata") else None


def reduce_events(
    table: EventTable, instance: str, where: Clause, aggregation: Reduce, most_bytes: int
) -> Any:
    """Return the aggregation: a value, or `{group: value}`.

    Events without the field of the group are in the group "". Raises InvalidInput and
    ResultTooLarge.
    """
    if aggregation.type in NUMERIC and aggregation.field is None:
        rule = f"{aggregation.type} needs a field"
        raise refusal("the request", [Fault("/reduce/field", "required", rule)])
    field = _require(aggregation.field, "/reduce/field")
    group = _require(aggregation.group_by, "/reduce/group_by")
    source = _Source(table, instance, where, group)
    if aggregation.type in ENDS:
        values = _ends(source, aggregation)
    elif aggregation.type == "collect":
        values = _collected(source, field)
    else:
        values = _computed(source, aggregation.type, field)
    if len(values) > MOST_GROUPS:
        raise ResultTooLarge(
            f"the aggregation has more than {MOST_GROUPS} groups; add conditions to `where`, or "
            "group by another field"
        )
    answer: Any = values
    if group is None:
        answer = next(iter(values.values()), EMPTY.get(aggregation.type))
    if len(orjson.dumps(answer)) > most_bytes:
        raise ResultTooLarge(
            f"the aggregation has more than {most_bytes} bytes; add conditions to `where`"
        )
    return answer


def _require(name: str | None, path: str) -> SqlField | None:
    return None if name is None else require_field(name, path, find_field, KNOWN)


class _Source:
    """The events that an aggregation reads."""

    def __init__(
        self, table: EventTable, instance: str, where: Clause, group: SqlField | None
    ) -> None:
        self.table, self.instance, self.group = table, instance, group
        # SQL of the group's value, with its values.
        self.key = ("''", ()) if group is None else (group.value_sql, group.bound)
        self.where = f"FROM events WHERE instance = ? AND {where[0]}"
        self.values = (instance, *where[1])

    def name_group(self, key: Any) -> str:
        """Return the name of a group with that value."""
        if key is None:
            return ""
        if self.group is not None and self.group.type == "time":
            return format_time(key)
        return key if isinstance(key, str) else orjson.dumps(key).decode()


def _ends(source: _Source, aggregation: Reduce) -> dict[str, Any]:
    """Return the last or the first event of each group, or its field."""
    key, of_key = source.key
    columns = ", ".join(f"{name} AS {name}" for name in EVENT_COLUMNS.split(", "))
    if source.group is None:
        sql = f"SELECT '' AS g, {columns} {source.where} ORDER BY {ENDS[aggregation.type]} LIMIT 1"
    else:
        ranked = (
            f"SELECT {key} AS g, {columns}, row_number() OVER "
            f"(PARTITION BY {key} ORDER BY {ENDS[aggregation.type]}) AS place {source.where}"
        )
        sql = f"SELECT g, {EVENT_COLUMNS} FROM ({ranked}) WHERE place = 1 LIMIT {MOST_GROUPS + 1}"
        of_key = (*of_key, *of_key)
    keys = [] if aggregation.field is None else aggregation.field.split(".")
    values = dict[str, Any]()
    for group, *row in source.table.rows(sql, (*of_key, *source.values)):
        value: Any = event_object(source.instance, Event._make(row))
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        values[source.name_group(group)] = value
    return values


def _collected(source: _Source, field: SqlField | None) -> dict[str, Any]:
    """Return the values of a field for each group in the order of time, by default the payloads."""
    key, of_key = source.key
    column = SqlField("payload", "data", "$") if field is None else field
    value, bound = column.value_sql, column.bound
    if column.type == "data":
        value = f"{column.sql} -> ?"
    sql = f"SELECT {key}, {value} {source.where} ORDER BY at, row LIMIT {MOST_COLLECTED + 1}"
    values, count = dict[str, Any](), 0
    for group, one in source.table.rows(sql, (*of_key, *bound, *source.values)):
        if (count := count + 1) > MOST_COLLECTED:
            raise ResultTooLarge(
                f"collect returns at most {MOST_COLLECTED} values; add conditions to `where`"
            )
        if one is not None:
            if column.type == "data":
                one = orjson.loads(one)
            elif column.type == "time":
                one = format_time(one)
            values.setdefault(source.name_group(group), []).append(one)
    return values


def _computed(source: _Source, type_: str, field: SqlField | None) -> dict[str, Any]:
    sql, bound = _aggregate(type_, field)
    key, of_key = source.key
    rows = source.table.rows(
        f"SELECT {key} AS g, {sql} {source.where} GROUP BY g LIMIT {MOST_GROUPS + 1}",
        (*of_key, *bound, *source.values),
    )
    is_time = field is not None and field.type == "time" and type_ in ("min", "max")
    convert = format_time if is_time else CONVERT.get(type_, lambda value: value)
    values = dict[str, Any]()
    for group, value in rows:
        values[source.name_group(group)] = convert(value)
    return values


def _aggregate(type_: str, field: SqlField | None) -> Clause:
    if field is None:
        return "count(*)", ()
    if type_ in ("count", "exists"):
        if field.type == "data":
            return f"count(json_type({field.sql}, ?))", (field.path,)
        return f"count({field.sql})", ()
    if field.type == "data":
        is_number = f"json_type({field.sql}, ?) IN ('integer', 'real')"
        number = f"CASE WHEN {is_number} THEN json_extract({field.sql}, ?) END"
        bound: tuple[Any, ...] = (field.path, field.path)
    else:
        number, bound = "NULL" if field.type == "text" else field.sql, ()
    # SQLite's sum() of integers fails beyond 64 bits.
    function = "total" if type_ == "sum" else type_
    return f"{function}({number})", bound


def _as_integer(total: float) -> float:
    """Return a sum as an integer if it is one, and exact as a float."""
    return int(total) if total.is_integer() and abs(total) <= 2**53 else total


CONVERT: dict[str, Callable[[Any], Any]] = {"sum": _as_integer, "exists": bool}
