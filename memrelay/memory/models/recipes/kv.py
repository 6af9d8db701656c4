"""Key-value pairs, in namespaces of key-value stores."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from memrelay.memory.engine.filter_sql import SqlField
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment, format_time
from memrelay.memory.models.recipes.instances import MOST_NAMES, InstanceName, ensure_id, find_id
from memrelay.memory.models.recipes.queries import (
    Offset,
    OrderBy,
    Select,
    Where,
    compile_where,
    find_total,
    from_json,
    pick_fields,
    require_field,
    take_within,
    to_json,
)
from memrelay.memory.models.recipes.table import Pair, RecipeTables
from memrelay.memory.operations import Context, operation

KvName = Annotated[str, Field(min_length=1, max_length=512, pattern=r"^[^\x00]*$")]
MOST_KEYS = 1000
MOST_CONDITIONS = 5
MOST_PAIRS = 500
FIELDS = {
    "key": SqlField("key", "text"),
    "updated_at": SqlField("updated_at", "time"),
}
ALIASES = {"updatedAt": "updated_at"}


@dataclass(frozen=True, slots=True)
class PairView:
    """A key-value pair."""

    instance_id: str
    namespace: str
    key: str
    value: Any
    updated_at: Moment


def view_pair(instance: str, pair: Pair) -> PairView:
    """Return the view of a pair. Raises RecordDamaged."""
    return PairView(
        instance,
        pair.namespace,
        pair.key,
        read_value(instance, pair),
        format_time(pair.updated_at),
    )


def read_value(instance: str, pair: Pair) -> Any:
    """Return the value of a pair. Raises RecordDamaged."""
    return from_json(pair.value, f"the value of {instance}/{pair.namespace}/{pair.key}")


@dataclass(frozen=True, slots=True)
class SetPair:
    """A pair to write."""

    instance: InstanceName
    """The id or the name of the key-value store."""
    namespace: KvName
    """A part of the store with separate keys."""
    key: KvName
    """The key."""
    value: Any
    """The value: any JSON, at most 256 KiB."""
    auto_create: bool = False
    """Whether a missing store is created."""


@operation("kv.set", access="write", mutates=True, store="recipes")
def set_pair(tx: Transaction, new: SetPair, context: Context) -> PairView:
    """Write a pair. A new value replaces that of the key.

    Raises RecordNotFound: when the store does not exist and is not created.
    Raises BadValue: when JSON cannot express the value, or it is nested too deeply.
    Raises ValueTooLarge: when the value is too large.
    """
    pair = Pair(new.namespace, new.key, to_json(new.value), context.now_ms)
    id_ = ensure_id(tx, "kv", new.instance, context, create=new.auto_create)
    tx.table(RecipeTables).kv.set(id_, pair)
    tx.records.announce("kv.set", id_, {"namespace": new.namespace, "key": new.key})
    return view_pair(id_, pair)


@dataclass(frozen=True, slots=True)
class GetPairs:
    """The pairs to read."""

    instance: InstanceName
    """The id or the name of the key-value store."""
    namespace: KvName
    """The namespace."""
    keys: Annotated[tuple[KvName, ...], Field(min_length=1, max_length=MOST_KEYS)]
    """The keys."""


@dataclass(frozen=True, slots=True)
class FoundPair:
    """The value of a key."""

    key: str
    value: Any
    """The value; null if there is none."""
    exists: bool
    """Whether the key has a value, which may be null."""
    updated_at: Moment | None
    """When the pair was written; null without a pair."""


@dataclass(frozen=True, slots=True)
class FoundPairs:
    """One value for each key, in the order of the keys."""

    instance_id: str
    namespace: str
    items: tuple[FoundPair, ...]


@operation("kv.get", access="read", mutates=False, store="recipes")
def get(tx: Transaction, query: GetPairs, context: Context) -> FoundPairs:
    """Return the values of keys, in the order of the keys.

    Raises RecordNotFound: when the store does not exist.
    """
    id_ = find_id(tx, "kv", query.instance)
    pairs = tx.table(RecipeTables).kv.get(id_, query.namespace, query.keys)
    items = []
    for key in query.keys:
        if (pair := pairs.get(key)) is None:
            items.append(FoundPair(key, None, exists=False, updated_at=None))
        else:
            changed = format_time(pair.updated_at)
            items.append(FoundPair(key, read_value(id_, pair), exists=True, updated_at=changed))
    return FoundPairs(id_, query.namespace, tuple(items))


@dataclass(frozen=True, slots=True)
class DeletePair:
    """The pair to delete."""

    instance: InstanceName
    """The id or the name of the key-value store."""
    namespace: KvName
    """The namespace."""
    key: KvName
    """The key."""


@dataclass(frozen=True, slots=True)
class PairDeleted:
    """The result of a deletion."""

    deleted: bool
    """Whether there was a pair."""


@operation("kv.delete", access="delete", mutates=True, store="recipes")
def delete(tx: Transaction, target: DeletePair, context: Context) -> PairDeleted:
    """Delete a pair. It cannot be restored.

    Raises RecordNotFound: when the store does not exist.
    """
    id_ = find_id(tx, "kv", target.instance)
    is_deleted = bool(tx.table(RecipeTables).kv.delete(id_, target.namespace, target.key))
    if is_deleted:
        tx.records.announce("kv.deleted", id_, {"namespace": target.namespace, "key": target.key})
    return PairDeleted(is_deleted)


@dataclass(frozen=True, slots=True)
class ClearNamespace:
    """The namespace to clear."""

    instance: InstanceName
    """The id or the name of the key-value store."""
    namespace: KvName
    """The namespace."""


@dataclass(frozen=True, slots=True)
class PairsDeleted:
    """The result of a deletion."""

    deleted: int
    """The number of deleted pairs."""


@operation("kv.clear", access="delete", mutates=True, store="recipes")
def clear(tx: Transaction, target: ClearNamespace, context: Context) -> PairsDeleted:
    """Delete all pairs of a namespace. They cannot be restored.

    Raises RecordNotFound: when the store does not exist.
    """
    id_ = find_id(tx, "kv", target.instance)
    deleted = tx.table(RecipeTables).kv.delete(id_, target.namespace)
    if deleted:
        tx.records.announce("kv.cleared", id_, {"namespace": target.namespace})
    return PairsDeleted(deleted)


@dataclass(frozen=True, slots=True)
class CountPairs:
    """The pairs to count."""

    instance: InstanceName
    """The id or the name of the key-value store."""
    namespace: KvName | None = None
    """Only pairs of this namespace."""


@dataclass(frozen=True, slots=True)
class PairCount:
    """The number of pairs."""

    count: int


@operation("kv.count", access="read", mutates=False, store="recipes")
def count(tx: Transaction, query: CountPairs, context: Context) -> PairCount:
    """Count the pairs of a store or of a namespace.

    Raises RecordNotFound: when the store does not exist.
    Raises SearchTooLong: when the count exceeds the time limit.
    """
    id_ = find_id(tx, "kv", query.instance)
    with tx.bounded_search():
        return PairCount(tx.table(RecipeTables).kv.count(id_, query.namespace))


@dataclass(frozen=True, slots=True)
class ListNamespaces:
    """The store whose namespaces are listed."""

    instance: InstanceName
    """The id or the name of the key-value store."""


@dataclass(frozen=True, slots=True)
class Namespaces:
    """The namespaces of a store."""

    items: tuple[str, ...]
    """Their names in order, at most 1,000."""


@operation("kv.namespaces", access="read", mutates=False, store="recipes")
def namespaces(tx: Transaction, query: ListNamespaces, context: Context) -> Namespaces:
    """List the namespaces that have pairs.

    Raises RecordNotFound: when the store does not exist.
    """
    id_ = find_id(tx, "kv", query.instance)
    return Namespaces(tuple(tx.table(RecipeTables).kv.namespaces(id_, MOST_NAMES)))


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


@operation("kv.query", access="read", mutates=False, store="recipes")
def query_pairs(tx: Transaction, query: QueryPairs, context: Context) -> PairPage:
    """Find pairs by their keys and times.

    Raises RecordNotFound: when the store does not exist.
    Raises InvalidInput: when a condition or the order is invalid.
    Raises ResultTooLarge: when the result does not fit into an answer.
    Raises SearchTooLong: when the query exceeds the time limit.
    """
    where = compile_where(query.where, _find_field, tuple(FIELDS))
    order = "namespace, key"
    if query.order_by is not None:
        field = require_field(query.order_by.field, "/order_by/field", _find_field, tuple(FIELDS))
        order = f"{field.sql} {query.order_by.direction}, namespace, key"
    id_, window = find_id(tx, "kv", query.instance), (query.limit, query.offset)
    with tx.bounded_search():
        pairs = tx.table(RecipeTables).kv.select(id_, query.namespace, where, order, window)
        records = take_within(_views(id_, pairs, query.select), context.result_bytes)
        total = find_total(len(records), *window)
        if total is None:
            total = tx.table(RecipeTables).kv.count(id_, query.namespace, where)
    return PairPage(tuple(records), total, *window)


def _find_field(name: str) -> SqlField | None:
    return FIELDS.get(ALIASES.get(name, name))


def _views(instance: str, pairs: Iterator[Pair], select: Select) -> Iterator[dict[str, Any]]:
    for pair in pairs:
        view = {
            "namespace": pair.namespace,
            "key": pair.key,
            "value": read_value(instance, pair),
            "updated_at": format_time(pair.updated_at),
        }
        yield pick_fields(view, select, ALIASES)
