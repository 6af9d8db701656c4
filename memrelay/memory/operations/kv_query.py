"""kv.query: finds key-value pairs by their keys and times."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.sources.instances import InstanceName, find_id
from memrelay.memory.recipes.sources.kv_table import Pair
from memrelay.memory.recipes.sources.pairs import KvName, value_of
from memrelay.memory.recipes.sources.query import (
    Offset,
    OrderBy,
    Select,
    pick_fields,
    take_within,
    total_of,
)
from memrelay.memory.recipes.sources.where import SqlField, Where, compile_where, require_field
from memrelay.memory.sqlite.store import Transaction
from memrelay.memory.timestamps import format_time

MOST_CONDITIONS = 5
MOST_PAIRS = 500
FIELDS = {
    "key": SqlField("key", "text"),
    "updated_at": SqlField("updated_at", "time"),
}
ALIASES = {"updatedAt": "updated_at"}


@dataclass(frozen=True, slots=True)
class QueryPairs:
    """A query over pairs."""

    instance: InstanceName
    """The id or the name of the key-value store."""
    namespace: KvName | None = None
    """Only pairs of this namespace."""
    where: Annotated[tuple[Where, ...], Field(max_length=MOST_CONDITIONS)] = ()
    """Conditions on key and updated_at, all of which must hold."""
    select: Select = ()
    """The fields to return, for example `value.name`; by default all."""
    order_by: OrderBy | None = None
    """The order, by key or updated_at; by default by namespace and key."""
    limit: Annotated[int, Field(ge=1, le=MOST_PAIRS)] = 100
    """The maximum number of pairs."""
    offset: Offset = 0
    """The number of pairs to skip."""


@dataclass(frozen=True, slots=True)
class PairPage:
    """The pairs that a query found."""

    records: tuple[dict[str, Any], ...]
    """Pairs with namespace, key, value and updated_at."""
    total: int
    """The number of pairs on all pages."""
    limit: int
    offset: int


@operation("kv.query", access="read", mutates=False, home="recipes")
def query(tx: Transaction, wanted: QueryPairs, context: Context) -> PairPage:
    """Find pairs by their keys and times.

    Raises RecordNotFound: when the store does not exist.
    Raises InvalidInput: when a condition or the order is invalid.
    Raises ResultTooLarge: when the result does not fit into an answer.
    Raises SearchTooLong: when the query exceeds the time limit.
    """
    where = compile_where(wanted.where, _find_field, tuple(FIELDS))
    order = "namespace, key"
    if wanted.order_by is not None:
        field = require_field(wanted.order_by.field, "/order_by/field", _find_field, tuple(FIELDS))
        order = f"{field.sql} {wanted.order_by.direction}, namespace, key"
    id_, window = find_id(tx, "kv", wanted.instance), (wanted.limit, wanted.offset)
    with tx.bounded_search():
        found = tx.recipes.kv.select(id_, wanted.namespace, where, order, window)
        records = take_within(_views(id_, found, wanted.select), context.result_bytes)
        total = total_of(len(records), *window)
        if total is None:
            total = tx.recipes.kv.count(id_, wanted.namespace, where)
    return PairPage(tuple(records), total, *window)


def _find_field(name: str) -> SqlField | None:
    return FIELDS.get(ALIASES.get(name, name))


def _views(instance: str, pairs: Iterator[Pair], select: Select) -> Iterator[dict[str, Any]]:
    for pair in pairs:
        whole = {
            "namespace": pair.namespace,
            "key": pair.key,
            "value": value_of(instance, pair),
            "updated_at": format_time(pair.updated_at),
        }
        yield pick_fields(whole, select, ALIASES)
