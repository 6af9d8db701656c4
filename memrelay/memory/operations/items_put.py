"""items.put: writes an entry of a shared store under its key."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from memrelay.memory.errors import Denied
from memrelay.memory.items.access import Level, require
from memrelay.memory.items.entries import check_entry_version, refuse_surplus_key
from memrelay.memory.items.grants import Ttl, end_of
from memrelay.memory.items.identity import Identity, StoreId
from memrelay.memory.items.item import Address, ItemView, Key, Namespace, encode, view_state
from memrelay.memory.operation import Context, operation
from memrelay.memory.records.kinds import ITEM_KIND
from memrelay.memory.records.view import Versions
from memrelay.memory.sqlite.store import Transaction
from memrelay.memory.sqlite.versions import State, StoredRecord


@dataclass(frozen=True, slots=True)
class PutItem(Identity):
    """An entry to write. It belongs to the calling agent."""

    store: StoreId
    """The store."""
    key: Key
    """The key: any text."""
    value: Any
    """The value: any JSON."""
    namespace: Namespace = ""
    """A part of the store with keys of its own."""
    ttl_s: Ttl = None
    """Seconds until the entry expires; 0 means never. By default an entry keeps its end."""
    in_context: bool | None = None
    """Whether lists and searches return the entry; true for a new one. False makes it internal."""
    encrypted: bool | None = None
    """Whether the client encrypted the value; false for a new entry."""
    if_absent: bool = False
    """Write only if no agent has an entry with the key. Otherwise `won` is false."""
    if_version: Versions = ()
    """Write only if the agent's entry has one of these versions."""


@dataclass(frozen=True, slots=True)
class PutResult:
    """The entry after the write."""

    entry: ItemView
    """The entry. An internal or encrypted value is null."""
    created: bool
    """Whether the entry is new."""
    won: bool
    """Whether the value was written. False only with `if_absent`, for a key with an entry."""


class _Flags(NamedTuple):
    in_context: bool
    encrypted: bool


@operation("items.put", access="write", mutates=True, home="stores")
def put(tx: Transaction, given: PutItem, context: Context) -> PutResult:
    """Write an entry under its key. A new value replaces that of the agent's own entry.

    Raises Denied: when the agent has no readwrite access, or the entry is internal or encrypted
    and the call does not repeat that.
    Raises VersionConflict: when the entry has another version.
    Raises ValueTooLarge: when the value exceeds the limit of its kind.
    Raises TooManyKeys: when the store is full.
    """
    return put_item(tx, given, context)


def put_item(tx: Transaction, given: PutItem, context: Context) -> PutResult:
    """Write an entry inside an open transaction. Raises as `items.put` does."""
    state, is_created, has_won = store_item(tx, given, context)
    return PutResult(view_state(state), created=is_created, won=has_won)


def store_item(tx: Transaction, given: PutItem, context: Context) -> tuple[State, bool, bool]:
    """Write an entry as `put_item` does. Return it as stored, whether it is new, and `won`."""
    require(tx, given, given.store, Level.READWRITE)
    address = Address(given.store, given.namespace, given.key)
    place = tx.items.own_to_write(address, given.agent)
    if given.if_absent and (held := place or tx.items.best(address, given.agent)) is not None:
        return held.whole, False, False
    check_entry_version(place, given.key, given.if_version)
    flags = _combine_flags(place, given)
    in_context, encrypted = flags
    stored = encode(given.value, given.namespace, in_context=in_context, encrypted=encrypted)
    if place is None:
        return _insert(tx, _new_state(given, flags, stored, context)), True, True
    return _replace(tx, place, given, (flags, *stored)), False, True


def _combine_flags(place: StoredRecord | None, given: PutItem) -> _Flags:
    """Return the flags of the entry. Raises Denied if a set flag is not repeated."""
    visible = given.in_context is not False
    encrypted = bool(given.encrypted)
    if place is not None and (
        (not place.whole.in_context and visible) or (place.whole.encrypted and not encrypted)
    ):
        raise Denied(
            f"entry {given.key!r} is internal or encrypted and stays so; repeat `in_context: "
            "false` and `encrypted: true` as they are set, or delete the entry first"
        )
    return _Flags(visible, encrypted)


def _new_state(
    given: PutItem, flags: _Flags, stored: tuple[str, str | None], context: Context
) -> State:
    content, data = stored
    return State(
        context.new_guid(),
        number=1,
        scope=given.store,
        kind=ITEM_KIND,
        source=given.agent,
        tags="[]",
        created_at=context.now_ms,
        updated_at=context.now_ms,
        key=given.key,
        owner=given.agent,
        data=data,
        expires_at=end_of(given.ttl_s, context.now_ms, None),
        in_context=int(flags.in_context),
        encrypted=int(flags.encrypted),
        thread=None,
        seq=None,
        crc=None,
        content=content,
    )


def _insert(tx: Transaction, new: State) -> State:
    refuse_surplus_key(tx, new.scope)
    return tx.items.insert(new)


def _replace(
    tx: Transaction, place: StoredRecord, given: PutItem, stored: tuple[_Flags, str, str | None]
) -> State:
    """Change an entry. A value and flags that it has already change nothing."""
    (in_context, encrypted), content, data = stored
    before, now_ms = place.whole, tx.records.versions.now_ms
    after = before._replace(
        content=content,
        data=data,
        in_context=int(in_context),
        encrypted=int(encrypted),
        expires_at=end_of(given.ttl_s, now_ms, before.expires_at),
    )
    if after == before:
        return before
    return tx.items.change(place, after)
