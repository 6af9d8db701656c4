"""The items of LangGraph stores: records of kind memory.item, with unique keys within a scope."""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, ValidationError

from memrelay.memory.engine.keyed_table import new_state
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.versions import StoredRecord
from memrelay.memory.errors import Refused
from memrelay.memory.field_descriptions import nested_input
from memrelay.memory.models.langgraph import LANGGRAPH_ITEM_KIND
from memrelay.memory.models.langgraph.table import (
    SEPARATOR,
    LanggraphItemTable,
    Pattern,
    TtlMinutes,
    compute_expiry,
)
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.data import MOST_BYTES, Data, as_text, checked
from memrelay.memory.records.paging import Limit, Offset
from memrelay.memory.records.reading import check_fits, record_budget
from memrelay.memory.records.view import MAX_NAME_CHARACTERS, GivenName, Guid, RecordView, view

# Items of one call.
MAX_ITEMS = 1000
VALUE, TTL = "value", "ttl_m"
Keys = Annotated[tuple[GivenName, ...], Field(min_length=1, max_length=MAX_ITEMS)]
Labels = Annotated[tuple[GivenName, ...], Field(max_length=MAX_NAME_CHARACTERS)]


@dataclass(frozen=True, slots=True)
class FindRecords:
    """The items to look up."""

    scope: GivenName
    """Their scope: the labels of the namespace, joined by dots."""
    keys: Keys
    """Their keys."""


@dataclass(frozen=True, slots=True)
class FoundRecords:
    """The items that exist."""

    items: tuple[RecordView, ...]
    """The items, in the order of the keys."""
    remaining: tuple[str, ...]
    """Keys that were not looked up because the answer is full; look them up in another call."""


@operation(
    "records.find",
    access="read",
    mutates=False,
    store="langgraph",
    any_store=True,
    takes_as_of=True,
)
def find(tx: Transaction, request: FindRecords, context: Context) -> FoundRecords:
    """Look up items of a LangGraph store (records of kind memory.item) by their keys.

    Raises ResultTooLarge: when an item does not fit into an answer.
    """
    keys = tuple(dict.fromkeys(request.keys))
    items: list[RecordView] = []
    budget = record_budget(context.result_bytes)
    for stored in tx.table(LanggraphItemTable).at_keys(request.scope, keys):
        record, extras = stored.state.record, stored.state.extras
        if not budget.fits((record, extras)) and items:
            return FoundRecords(tuple(items), keys[keys.index(stored.state.key or "") :])
        items.append(view(check_fits(record, extras, context), extras))
    return FoundRecords(tuple(items), ())


@nested_input
@dataclass(frozen=True, slots=True)
class ItemToPut:
    """An item."""

    scope: GivenName
    """The labels of its namespace, joined by dots."""
    key: GivenName
    """Its key, unique within the scope."""
    data: Data
    """A JSON object of at most 64 KiB, with the item's value, an object, in `value`."""
    content: str = ""
    """The text by which searches find the item. They never find an item without text."""
    ttl: TtlMinutes | None = None
    """The minutes from the last access to the expiry, stored in `data.ttl_m`; null for never."""


@dataclass(frozen=True, slots=True)
class PutRecords:
    """The items to write."""

    items: Annotated[tuple[ItemToPut, ...], Field(min_length=1, max_length=MAX_ITEMS)]
    """The items. Of several with one scope and key, the last is written."""


@dataclass(frozen=True, slots=True)
class PutOutput:
    """What was written."""

    guids: tuple[str, ...]
    """The guid of each item's record, in the order of the input."""
    created: int
    """The number of new items. The others were replaced."""


@operation("records.put", access="write", mutates=True, store="langgraph", any_store=True)
def put(tx: Transaction, request: PutRecords, context: Context) -> PutOutput:
    """Write items of a LangGraph store (records of kind memory.item), all in one transaction.

    An item that exists is replaced. It keeps its guid and its creation time, and its earlier
    version stays in the history.

    Raises Refused: when `data` has no object `value`, or is too large with `ttl_m`.
    """
    items = {(item.scope, item.key): item for item in request.items}
    data = {address: _prepare_data(item) for address, item in items.items()}
    # Before the writes, which are then inserted together.
    table = tx.table(LanggraphItemTable)
    stored = {address: table.find_to_write(*address) for address in items}
    guids = {
        address: _write(tx, stored[address], item, data[address], context)
        for address, item in items.items()
    }
    created = sum(one is None for one in stored.values())
    return PutOutput(tuple(guids[item.scope, item.key] for item in request.items), created)


def _prepare_data(item: ItemToPut) -> dict[str, Any]:
    """Return `data` as stored. Raises Refused."""
    if not isinstance(item.data.get(VALUE), dict):
        raise Refused(
            f"`data` of item {item.key!r} needs the key `value` with an object, "
            'like {"value": {"food": "pizza"}}'
        )
    data = {name: value for name, value in item.data.items() if name != TTL}
    try:
        return checked(data if item.ttl is None else data | {TTL: item.ttl})
    except ValidationError as error:
        raise Refused(
            f"`data` of item {item.key!r} has more than {MOST_BYTES} bytes with `ttl_m`; "
            "store less, or split it over several keys"
        ) from error


def _write(
    tx: Transaction,
    stored: StoredRecord | None,
    item: ItemToPut,
    data: dict[str, Any],
    context: Context,
) -> str:
    """Insert or replace an item, and return its guid."""
    if stored is None:
        before = new_state(context.new_guid(), LANGGRAPH_ITEM_KIND, context.now_ms, context.actor)
        before = before._replace(scope=item.scope, key=item.key)
    else:
        before = stored.state
    expires_at = compute_expiry(item.ttl, context.now_ms)
    after = before._replace(content=item.content, data=as_text(data), expires_at=expires_at)
    table = tx.table(LanggraphItemTable)
    return (table.insert(after) if stored is None else table.change(stored, after)).guid


@dataclass(frozen=True, slots=True)
class RemoveRecords:
    """The items to delete."""

    scope: GivenName
    """Their scope: the labels of the namespace, joined by dots."""
    keys: Keys
    """Their keys."""


@dataclass(frozen=True, slots=True)
class Removed:
    """What was deleted."""

    removed: int
    """The number of items that existed."""


@operation("records.remove", access="delete", mutates=True, store="langgraph", any_store=True)
def remove(tx: Transaction, request: RemoveRecords, context: Context) -> Removed:
    """Delete items of a LangGraph store (records of kind memory.item) by their keys.

    Keys without an item are ignored. records.restore can undo it.
    """
    table = tx.table(LanggraphItemTable)
    removed = list(table.at_keys(request.scope, dict.fromkeys(request.keys)))
    for stored in removed:
        tx.records.delete(stored)
    return Removed(len(removed))


@dataclass(frozen=True, slots=True)
class ListScopes:
    """The scopes to list, and the page."""

    prefix: Labels = ()
    """Only scopes that begin with these labels. The label `*` matches any label."""
    suffix: Labels = ()
    """Only scopes that end with these labels. The label `*` matches any label."""
    max_depth: Annotated[int, Field(ge=1, le=MAX_NAME_CHARACTERS)] | None = None
    """Cut longer scopes to this number of labels, and return each result once."""
    limit: Limit = 100
    """The maximum number of scopes."""
    offset: Offset = 0
    """The number of scopes to skip."""


@dataclass(frozen=True, slots=True)
class Scopes:
    """A page of scopes."""

    scopes: tuple[str, ...]
    """The scopes, each with its labels joined by dots, in the order of their labels."""
    total: int
    """The number of scopes on all pages."""


@operation("records.scopes", access="read", mutates=False, store="langgraph", any_store=True)
def list_scopes(tx: Transaction, request: ListScopes, context: Context) -> Scopes:
    """List the scopes in which a LangGraph store has items (records of kind memory.item).

    Raises SearchTooLong: when the search exceeds its time limit.
    """
    pattern = Pattern(request.prefix, request.suffix)
    table = tx.table(LanggraphItemTable)
    with tx.bounded_search():
        scopes = {labels[: request.max_depth] for labels in table.scopes(pattern)}
    page = sorted(scopes)[request.offset : request.offset + request.limit]
    return Scopes(tuple(map(SEPARATOR.join, page)), len(scopes))


@dataclass(frozen=True, slots=True)
class TouchRecords:
    """The items that were accessed."""

    guids: Annotated[tuple[Guid, ...], Field(min_length=1, max_length=MAX_ITEMS)]
    """The guids of their records."""


@dataclass(frozen=True, slots=True)
class Touched:
    """What was changed."""

    touched: int
    """The number of items that have a time to live and have not expired."""


@operation("records.touch", access="write", mutates=True, store="langgraph", any_store=True)
def touch(tx: Transaction, request: TouchRecords, context: Context) -> Touched:
    """Restart the time to live of items of a LangGraph store (records of kind memory.item).

    Each expires `data.ttl_m` minutes from now, and never earlier than before. Its version and its
    history stay the same. Other records are ignored.
    """
    return Touched(tx.table(LanggraphItemTable).touch(dict.fromkeys(request.guids)))
