"""records.put: writes items of a LangGraph store under their keys."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, ValidationError

from memrelay.memory.agents.items import TtlMinutes, expiry_of
from memrelay.memory.errors import Refused
from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_find import MAX_ITEMS
from memrelay.memory.records.data import MOST_BYTES, Data, as_text, checked
from memrelay.memory.records.kinds import LANGGRAPH_ITEM_KIND
from memrelay.memory.records.view import GivenName
from memrelay.memory.sqlite.store import Transaction
from memrelay.memory.sqlite.versions import State, StoredRecord
from memrelay.memory.timestamps import next_change_ms

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
    places = {address: tx.langgraph_items.to_write(*address) for address in last}
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
