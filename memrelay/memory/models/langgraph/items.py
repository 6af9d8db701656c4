"""records.put: writes items of a LangGraph store under their keys."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, ValidationError

from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import next_change_ms
from memrelay.memory.engine.versions import State, StoredRecord
from memrelay.memory.errors import Refused
from memrelay.memory.models.langgraph.table import (
    SEPARATOR,
    LanggraphItemTable,
    Pattern,
    TtlMinutes,
    expiry_of,
)
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.data import LARGEST, MOST_BYTES, Data, as_text, checked
from memrelay.memory.records.kinds import LANGGRAPH_ITEM_KIND
from memrelay.memory.records.reading import AnswerSize, Limit, check_fits
from memrelay.memory.records.view import MAX_NAME_CHARACTERS, GivenName, Guid, RecordView, view

# Items of one call.
MAX_ITEMS = 1000
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


@operation("records.find", access="read", mutates=False, home="langgraph", any_store=True)
def find(tx: Transaction, wanted: FindRecords, context: Context) -> FoundRecords:
    """Look up items of a LangGraph store (records of kind memory.item) by their keys.

    Raises ResultTooLarge: when an item does not fit into an answer.
    """
    keys = tuple(dict.fromkeys(wanted.keys))
    items: list[RecordView] = []
    room = AnswerSize(context.result_bytes)
    for place in tx.table(LanggraphItemTable).at_keys(wanted.scope, keys):
        record, further = place.whole.record, place.whole.further
        if room.would_exceed(record, further) and items:
            return FoundRecords(tuple(items), keys[keys.index(place.whole.key or "") :])
        items.append(view(check_fits(record, further, context), further))
    return FoundRecords(tuple(items), ())


VALUE, TTL = "value", "ttl_m"


@dataclass(frozen=True, slots=True)
class ItemToPut:
    """An item."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", use_attribute_docstrings=True
    )
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


@operation("records.put", access="write", mutates=True, home="langgraph", any_store=True)
def put(tx: Transaction, given: PutRecords, context: Context) -> PutOutput:
    """Write items of a LangGraph store (records of kind memory.item), all in one transaction.

    An item that exists is replaced. It keeps its guid and its creation time, and its earlier
    version stays in the history.

    Raises Refused: when `data` has no object `value`, or is too large with `ttl_m`.
    """
    last = {(item.scope, item.key): item for item in given.items}
    stored = {address: _stored_data(item) for address, item in last.items()}
    # Before the writes, which are then inserted together.
    places = {address: tx.table(LanggraphItemTable).to_write(*address) for address in last}
    guids = {
        address: _write(tx, places[address], (item, stored[address]), context)
        for address, item in last.items()
    }
    return PutOutput(
        tuple(guids[item.scope, item.key] for item in given.items),
        sum(place is None for place in places.values()),
    )


def _stored_data(item: ItemToPut) -> dict[str, Any]:
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
    place: StoredRecord | None,
    wanted: tuple[ItemToPut, dict[str, Any]],
    context: Context,
) -> str:
    """Insert or replace an item, and return its guid."""
    item, data = wanted
    new = _new_state(item, data, context)
    if place is None:
        return tx.records.insert_whole(new).guid
    before = place.whole
    after = before._replace(
        content=new.content,
        data=new.data,
        expires_at=new.expires_at,
        updated_at=next_change_ms(context.now_ms, before.updated_at),
    )
    return tx.records.overwrite(place, after).guid


def _new_state(item: ItemToPut, data: dict[str, Any], context: Context) -> State:
    return State(
        context.new_guid(),
        number=1,
        scope=item.scope,
        kind=LANGGRAPH_ITEM_KIND,
        source=context.actor,
        tags="[]",
        created_at=context.now_ms,
        updated_at=context.now_ms,
        key=item.key,
        owner=None,
        data=as_text(data),
        expires_at=expiry_of(item.ttl, context.now_ms),
        in_context=0,
        encrypted=0,
        thread=None,
        seq=None,
        crc=None,
        content=item.content,
    )


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


@operation("records.remove", access="delete", mutates=True, home="langgraph", any_store=True)
def remove(tx: Transaction, wanted: RemoveRecords, context: Context) -> Removed:
    """Delete items of a LangGraph store (records of kind memory.item) by their keys.

    Keys without an item are ignored. records.restore can undo it.
    """
    places = list(tx.table(LanggraphItemTable).at_keys(wanted.scope, dict.fromkeys(wanted.keys)))
    for place in places:
        tx.records.delete(place)
    return Removed(len(places))


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
    offset: Annotated[int, Field(ge=0, le=LARGEST)] = 0
    """The number of scopes to skip."""


@dataclass(frozen=True, slots=True)
class Scopes:
    """A page of scopes."""

    scopes: tuple[str, ...]
    """The scopes, each with its labels joined by dots, in the order of their labels."""
    total: int
    """The number of scopes on all pages."""


@operation("records.scopes", access="read", mutates=False, home="langgraph", any_store=True)
def list_scopes(tx: Transaction, wanted: ListScopes, context: Context) -> Scopes:
    """List the scopes in which a LangGraph store has items (records of kind memory.item).

    Raises SearchTooLong: when the search exceeds its time limit.
    """
    pattern = Pattern(wanted.prefix, wanted.suffix)
    with tx.bounded_search():
        found = {
            labels[: wanted.max_depth] for labels in tx.table(LanggraphItemTable).scopes(pattern)
        }
    page = sorted(found)[wanted.offset : wanted.offset + wanted.limit]
    return Scopes(tuple(map(SEPARATOR.join, page)), len(found))


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


@operation("records.touch", access="write", mutates=True, home="langgraph", any_store=True)
def touch(tx: Transaction, wanted: TouchRecords, context: Context) -> Touched:
    """Restart the time to live of items of a LangGraph store (records of kind memory.item).

    Each expires `data.ttl_m` minutes from now, and never earlier than before. Its version and its
    history stay the same. Other records are ignored.
    """
    return Touched(tx.table(LanggraphItemTable).touch(dict.fromkeys(wanted.guids)))
