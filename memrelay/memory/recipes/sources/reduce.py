"""Aggregations of events, computed by SQLite."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from memrelay.memory.errors import Fault, ResultTooLarge
from memrelay.memory.recipes.faults import refusal
from memrelay.memory.recipes.sources.event_table import COLUMNS, Event, EventTable
from memrelay.memory.recipes.sources.events import KNOWN, event_object, find_field
from memrelay.memory.recipes.sources.query import FieldName
from memrelay.memory.recipes.sources.where import Clause, SqlField, require_field
from memrelay.memory.timestamps import format_time

MOST_GROUPS = 1000
# Values that `collect` returns.
MOST_COLLECTED = 1000
NUMERIC = ("sum", "avg", "min", "max")
# SQL of the last and the first event of each group.
ENDS = {"last": "at DESC, row DESC", "first": "at, row"}


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


def reduce_events(
    table: EventTable, instance: str, where: Clause, wanted: Reduce, most_bytes: int
) -> Any:
    """Return the aggregation: a value, or `{group: value}`.

    Events without the field of the group are in the group "". Raises InvalidInput and
    ResultTooLarge.
    """
    if wanted.type in NUMERIC and wanted.field is None:
        rule = f"{wanted.type} needs a field"
        raise refusal("the request", [Fault("/reduce/field", "required", rule)])
    field, group = (
        None if name is None else require_field(name, path, find_field, KNOWN)
        for name, path in (
            (wanted.field, "/reduce/field"),
            (wanted.group_by, "/reduce/group_by"),
        )
    )
    source = _Source(table, instance, where, group)
    if wanted.type in ENDS:
        found = _ends(source, wanted)
    elif wanted.type == "collect":
        found = _collected(source, field)
    else:
        found = _computed(source, wanted.type, field)
    if len(found) > MOST_GROUPS:
        raise ResultTooLarge(
            f"the aggregation has more than {MOST_GROUPS} groups; add conditions to `where`, or "
            "group by another field"
        )
    answer = found if group is not None else next(iter(found.values()), EMPTY.get(wanted.type))
    if len(orjson.dumps(answer)) > most_bytes:
        raise ResultTooLarge(
            f"the aggregation has more than {most_bytes} bytes; add conditions to `where`"
        )
    return answer


EMPTY: dict[str, Any] = {"collect": [], "count": 0, "exists": False, "sum": 0}


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

    def name_of(self, key: Any) -> str:
        """Return the name of a group with that value."""
        if key is None:
            return ""
        if self.group is not None and self.group.sort == "time":
            return format_time(key)
        return key if isinstance(key, str) else orjson.dumps(key).decode()


def _computed(source: _Source, type_: str, field: SqlField | None) -> dict[str, Any]:
    sql, bound = _aggregate(type_, field)
    key, of_key = source.key
    rows = source.table.rows(
        f"SELECT {key} AS g, {sql} {source.where} GROUP BY g LIMIT {MOST_GROUPS + 1}",
        (*of_key, *bound, *source.values),
    )
    is_time = field is not None and field.sort == "time" and type_ in ("min", "max")
    convert = format_time if is_time else CONVERT.get(type_, lambda value: value)
    found = dict[str, Any]()
    for group, value in rows:
        found[source.name_of(group)] = convert(value)
    return found


def _aggregate(type_: str, field: SqlField | None) -> Clause:
    if field is None:
        return "count(*)", ()
    if type_ in ("count", "exists"):
        if field.sort == "json":
            return f"count(json_type({field.sql}, ?))", (field.path,)
        return f"count({field.sql})", ()
    if field.sort == "json":
        is_number = f"json_type({field.sql}, ?) IN ('integer', 'real')"
        number = f"CASE WHEN {is_number} THEN json_extract({field.sql}, ?) END"
        bound: tuple[Any, ...] = (field.path, field.path)
    else:
        number, bound = (field.sql, ()) if field.sort != "text" else ("NULL", ())
    # SQLite's sum() of integers fails beyond 64 bits.
    return f"{'total' if type_ == 'sum' else type_}({number})", bound


def _as_integer(total: float) -> float:
    """Return a sum as an integer if it is one, and exact as a float."""
    return int(total) if total.is_integer() and abs(total) <= 2**53 else total


CONVERT: dict[str, Callable[[Any], Any]] = {"sum": _as_integer, "exists": bool}


def _ends(source: _Source, wanted: Reduce) -> dict[str, Any]:
    """Return the last or the first event of each group, or its field."""
    key, of_key = source.key
    columns = ", ".join(f"{name} AS {name}" for name in COLUMNS.split(", "))
    if source.group is None:
        sql = f"SELECT '' AS g, {columns} {source.where} ORDER BY {ENDS[wanted.type]} LIMIT 1"
    else:
        ranked = (
            f"SELECT {key} AS g, {columns}, row_number() OVER "
            f"(PARTITION BY {key} ORDER BY {ENDS[wanted.type]}) AS place {source.where}"
        )
        sql = f"SELECT g, {COLUMNS} FROM ({ranked}) WHERE place = 1 LIMIT {MOST_GROUPS + 1}"
        of_key = (*of_key, *of_key)
    found = dict[str, Any]()
    for group, *row in source.table.rows(sql, (*of_key, *source.values)):
        one: Any = event_object(source.instance, Event._make(row))
        found[source.name_of(group)] = _read(one, wanted.field)
    return found


def _read(one: Any, field: str | None) -> Any:
    for key in () if field is None else field.split("."):
        one = one.get(key) if isinstance(one, dict) else None
    return one


def _collected(source: _Source, field: SqlField | None) -> dict[str, Any]:
    """Return the values of a field for each group in the order of time, by default the payloads."""
    key, of_key = source.key
    column = SqlField("payload", "json", "$") if field is None else field
    value, bound = column.value_sql, column.bound
    if column.sort == "json":
        value = f"{column.sql} -> ?"
    sql = f"SELECT {key}, {value} {source.where} ORDER BY at, row LIMIT {MOST_COLLECTED + 1}"
    found, count = dict[str, Any](), 0
    for group, one in source.table.rows(sql, (*of_key, *bound, *source.values)):
        if (count := count + 1) > MOST_COLLECTED:
            raise ResultTooLarge(
                f"collect returns at most {MOST_COLLECTED} values; add conditions to `where`"
            )
        if one is not None:
            if column.sort == "json":
                one = orjson.loads(one)
            elif column.sort == "time":
                one = format_time(one)
            found.setdefault(source.name_of(group), []).append(one)
    return found
