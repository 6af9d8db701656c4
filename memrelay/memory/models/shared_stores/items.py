"""items.put: writes an entry of a shared store under its key."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated, Any, NamedTuple

import orjson
from pydantic import Field

from memrelay.memory.engine.conditions import Given
from memrelay.memory.engine.identity import ContextId, Identity, StoreId
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.versions import State, StoredRecord
from memrelay.memory.errors import Denied, KeyTaken, NotText, Refused, TextNotUnique
from memrelay.memory.models.shared_stores.access import Level, list_accessible, require
from memrelay.memory.models.shared_stores.entries import (
    check_entry_fits,
    check_entry_version,
    find_entry,
    find_own_entry,
    missing_entry,
    refuse_surplus_key,
)
from memrelay.memory.models.shared_stores.grants import Ttl, end_of
from memrelay.memory.models.shared_stores.item import (
    MAX_KEY_CHARACTERS,
    Address,
    ItemRow,
    ItemView,
    Key,
    Namespace,
    decode,
    decode_state,
    encode,
    has_sealed_value,
    is_hidden,
    namespace_of,
    version_of,
    view_row,
    view_state,
)
from memrelay.memory.models.shared_stores.seals import is_sealed
from memrelay.memory.models.shared_stores.table import ItemTable, Listing, Position
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.kinds import ITEM_KIND
from memrelay.memory.records.reading import MOST, MOST_ESCAPED, RECORD_BYTES
from memrelay.memory.records.record import Record
from memrelay.memory.records.view import Versions
from memrelay.memory.search.search import SearchInput, search

# Characters of a cursor, which has up to three texts of 200 characters.
MAX_CURSOR_CHARACTERS = 8192
DIGEST_BYTES = 8
# Bytes of an entry in JSON besides its texts.
ENTRY_BYTES = 2 * RECORD_BYTES
MOST_HITS = 50
MAX_STORES = 1000
# Other values are in no index. A search that matches everything must skip their entries too.
IS_VISIBLE = "r.kind = 'store.item' AND r.in_context = 1 AND r.encrypted = 0"
# Characters of the text around the replaced part that the result shows on each side.
CONTEXT_CHARACTERS = 40


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
    place = tx.table(ItemTable).own_to_write(address, given.agent)
    if (
        given.if_absent
        and (held := place or tx.table(ItemTable).best(address, given.agent)) is not None
    ):
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
    return tx.table(ItemTable).insert(new)


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
    return tx.table(ItemTable).change(place, after)


@dataclass(frozen=True, slots=True)
class GetItem(Identity):
    """The entry to read."""

    store: StoreId
    """The store."""
    key: Key
    """The key."""
    namespace: Namespace = ""
    """The namespace within the store."""
    owner: ContextId = ""
    """Read the entry of this agent. By default the caller's own, else the newest."""
    internal: bool = False
    """Whether to return an internal entry too. Otherwise it does not exist."""


@operation("items.get", access="read", mutates=False, home="stores")
def get(tx: Transaction, wanted: GetItem, context: Context) -> ItemView:
    """Return an entry: the agent's own, else the newest with that key.

    Raises Denied: when the agent has no read access.
    Raises RecordNotFound: when there is no such entry.
    Raises ResultTooLarge: when the entry does not fit into an answer.
    """
    return get_item(tx, wanted, context)


def get_item(tx: Transaction, wanted: GetItem, context: Context) -> ItemView:
    """Return an entry inside an open transaction. Raises as `items.get` does."""
    require(tx, wanted, wanted.store, Level.READ)
    address = Address(wanted.store, wanted.namespace, wanted.key)
    found = find_entry(tx, address, wanted.agent, owner=wanted.owner, internal=wanted.internal)
    return view_state(check_entry_fits(found.whole, context), with_hidden=True)


@dataclass(frozen=True, slots=True)
class ListItems(Identity):
    """The entries to list, and the page."""

    store: StoreId
    """The store."""
    namespace: Namespace | None = None
    """Only entries of this namespace. By default all."""
    prefix: Annotated[str, Field(max_length=MAX_KEY_CHARACTERS)] = ""
    """Only entries whose key begins with this text."""
    in_context: bool = True
    """Visible entries. With false, internal ones without their values."""
    limit: Annotated[int, Field(ge=1, le=MOST)] = 100
    """The maximum number of entries. A page of long entries may have fewer."""
    cursor: Annotated[str, Field(max_length=MAX_CURSOR_CHARACTERS)] = ""
    """The `next_cursor` of the previous page, with the same other fields."""


@dataclass(frozen=True, slots=True)
class ItemPage:
    """A page of entries, in the order of their keys."""

    entries: tuple[ItemView, ...]
    keys: tuple[str, ...]
    """The keys of the page. A key that several agents use is on one page only, once."""
    next_cursor: str | None
    """The cursor of the next page; null on the last page."""


@operation("items.list", access="read", mutates=False, home="stores")
def list_entries(tx: Transaction, wanted: ListItems, context: Context) -> ItemPage:
    """List the entries of a store by key, in pages. Writes of others shift no page.

    Raises Denied: when the agent has no read access.
    Raises Refused: when the cursor is invalid, or belongs to another list.
    """
    return list_items(tx, wanted, context)


def list_items(tx: Transaction, wanted: ListItems, context: Context) -> ItemPage:
    """List entries inside an open transaction. Raises as `items.list` does."""
    require(tx, wanted, wanted.store, Level.READ)
    listing = Listing(wanted.store, wanted.namespace, wanted.prefix, wanted.in_context)
    beyond = _read_cursor(wanted.cursor, listing)
    found = tx.table(ItemTable).page(listing, beyond, wanted.limit + 1)
    rows, has_more = _take_rows(found, wanted.limit, context.result_bytes)
    keys = dict.fromkeys(row.key for row in rows)
    if beyond is not None:
        keys.pop(beyond.key, None)
    return ItemPage(
        tuple(view_row(row, with_value=wanted.in_context) for row in rows),
        tuple(keys),
        _make_cursor(rows[-1], listing) if has_more else None,
    )


def _take_rows(found: Iterable[ItemRow], limit: int, most_bytes: int) -> tuple[list[ItemRow], bool]:
    """Return (the entries of a page, whether there are more). A page has at least one entry.

    While an upper bound of the size fits, the exact size is not computed.
    """
    rows: list[ItemRow] = []
    exact = bound = unsure = 0
    for row in found:
        if len(rows) == limit:
            return rows, True
        rows.append(row)
        bound += MOST_ESCAPED * _characters(row) + ENTRY_BYTES
        if exact + bound > most_bytes:
            exact += sum(map(_json_size, rows[unsure:]))
            bound, unsure = 0, len(rows)
            if exact > most_bytes and len(rows) > 1:
                return rows[:-1], True
    return rows, False


def _characters(row: ItemRow) -> int:
    """Return the characters of an entry in an answer, which also lists its key."""
    names = len(row.store) + len(row.namespace) + 2 * len(row.key) + len(row.owner)
    return len(row.content) + len(row.data or "") + names


def _json_size(row: ItemRow) -> int:
    """Return the size of an entry in an answer, bytes."""
    names = (row.store, row.namespace, row.key, row.key, row.owner)
    value = row.content if row.data is None else (row.content, row.data)
    return len(orjson.dumps((value, *names))) + ENTRY_BYTES


def _make_cursor(last: ItemRow, listing: Listing) -> str:
    position = (last.key, last.owner, last.namespace)
    return urlsafe_b64encode(orjson.dumps((_digest(listing), *position))).decode().rstrip("=")


def _read_cursor(cursor: str, listing: Listing) -> Position | None:
    """Return the position in a cursor, None for the first page. Raises Refused."""
    if not cursor:
        return None
    try:
        digest, *position = orjson.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        key, owner, namespace = map(str, position)
    except (ValueError, TypeError) as error:
        raise Refused("`cursor` is invalid; omit it to start at the first page") from error
    if digest != _digest(listing):
        raise Refused(
            "`cursor` belongs to a list with another store, namespace, prefix or `in_context`; "
            "repeat those of the first page, or omit the cursor"
        )
    return Position(key, owner, namespace)


def _digest(listing: Listing) -> str:
    return blake2b(orjson.dumps(tuple(listing)), digest_size=DIGEST_BYTES).hexdigest()


@dataclass(frozen=True, slots=True)
class SearchItems(Identity):
    """A search."""

    query: Annotated[str, Field(min_length=1)]
    """The words or the question to find."""
    stores: Annotated[tuple[StoreId, ...], Field(max_length=MAX_STORES)] = ()
    """Only these stores. By default all that the agent can use. Others are ignored."""
    limit: Annotated[int, Field(ge=1, le=MOST_HITS)] = 10
    """The maximum number of entries."""


@dataclass(frozen=True, slots=True)
class ItemHit:
    """An entry that was found."""

    key: str
    value: Any
    store: str
    owner: str
    namespace: str
    score: float
    """Higher is better."""


@dataclass(frozen=True, slots=True)
class ItemHits:
    """The entries found, best first."""

    items: tuple[ItemHit, ...]


@operation("items.search", access="search", mutates=False, home="stores", embeds="query")
def search_entries(tx: Transaction, wanted: SearchItems, context: Context) -> ItemHits:
    """Find entries by their words and their meaning, best first.

    It covers all stores that the agent can use, also those with search access only. Internal and
    encrypted entries are not found.

    Raises Refused: when the query exceeds a limit.
    Raises ResultTooLarge: when the result exceeds the size of an answer.
    Raises VectorPending: when the vector of the query is not computed yet.
    """
    return search_items(tx, wanted, context)


def search_items(tx: Transaction, wanted: SearchItems, context: Context) -> ItemHits:
    """Find entries inside an open transaction. Raises as `items.search` does."""
    accessible = [one.store for one in list_accessible(tx, wanted)[0]]
    stores = tuple(store for store in accessible if not wanted.stores or store in wanted.stores)
    if not stores:
        return ItemHits(())
    query = SearchInput(
        wanted.query,
        context.result_bytes,
        limit=wanted.limit,
        mode="hybrid",
        language=context.language,
        given=_visible_in(stores),
    )
    return ItemHits(tuple(_hits(tx, search(tx, query))))


def _visible_in(stores: tuple[str, ...]) -> Given:
    """Return the condition that an entry is visible and in one of the stores."""
    listed = orjson.dumps(stores).decode()
    among = "r.scope IN (SELECT value FROM json_each(?))"
    return Given(f"({among} AND {IS_VISIBLE})", (listed,), {"stores": stores})


def _hits(tx: Transaction, found: list[Record]) -> Iterator[ItemHit]:
    for record in found:
        further = tx.records.further(record.guid)
        yield ItemHit(
            further.key or "",
            decode(record.content, further.data, record.guid),
            record.scope,
            further.owner or "",
            namespace_of(further.data, record.guid),
            record.score,
        )


@dataclass(frozen=True, slots=True)
class EditItem(Identity):
    """The part of a text to replace."""

    store: StoreId
    """The store."""
    key: Key
    """The key."""
    old_str: Annotated[str, Field(min_length=1)]
    """The text to replace, which must occur exactly once. It has no special characters."""
    new_str: str
    """The new text."""
    namespace: Namespace = ""
    """The namespace within the store."""


@dataclass(frozen=True, slots=True)
class EditResult:
    """The entry after the edit, and the text around the change."""

    entry: ItemView
    """The entry."""
    before: str
    """Up to 40 characters before the replaced text."""
    after: str
    """Up to 40 characters after the replaced text."""


@operation("items.edit", access="write", mutates=True, home="stores")
def edit(tx: Transaction, change: EditItem, context: Context) -> EditResult:
    """Replace a part of the text that a read of the key returns. It must occur exactly once.

    The entry keeps its owner, flags and end. An internal entry does not exist for this operation.

    Raises Denied: when the agent has no readwrite access, the entry is encrypted, or the agent's
    own entry is internal and another agent has a visible one.
    Raises RecordNotFound: when there is no such entry.
    Raises NotText: when the value is not a text.
    Raises TextNotUnique: when the old text is missing or occurs several times.
    Raises ValueTooLarge: when the new text is too long.
    """
    return edit_item(tx, change, context)


def edit_item(tx: Transaction, change: EditItem, context: Context) -> EditResult:
    """Edit an entry inside an open transaction. Raises as `items.edit` does."""
    require(tx, change, change.store, Level.READWRITE)
    if not change.old_str:
        raise Refused("`old_str` is empty; name the text to replace")
    address = Address(change.store, change.namespace, change.key)
    place = find_entry(tx, address, change.agent)
    if (
        place.whole.owner != change.agent
        and tx.table(ItemTable).own(address, change.agent) is not None
    ):
        raise Denied(
            f"the agent's own entry {change.key!r} is internal, and the visible one belongs to "
            f"{place.whole.owner!r}; write the own entry with items.put"
        )
    text = _text_of(place.whole)
    count = text.count(change.old_str)
    if count != 1:
        raise TextNotUnique(_describe_count(change.key, count), count)
    before, _, after = text.partition(change.old_str)
    content, _ = encode(
        before + change.new_str + after, change.namespace, in_context=True, encrypted=False
    )
    state = place.whole
    if content != state.content:
        state = tx.table(ItemTable).change(place, state._replace(content=content))
    return EditResult(view_state(state), before[-CONTEXT_CHARACTERS:], after[:CONTEXT_CHARACTERS])


def type_name(value: Any) -> str:
    """Return the type of a JSON value: text, number, boolean, object (also for a list) or null."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "text"
    return "object"


def _text_of(state: State) -> str:
    """Return the visible text of an entry. Raises NotText and Denied."""
    if state.encrypted:
        raise Denied(f"entry {state.key!r} is encrypted; write its new value with items.put")
    value = decode_state(state)
    if not isinstance(value, str):
        sort = type_name(value)
        raise NotText(
            f"entry {state.key!r} is {sort}, not text; write its new value with items.put", sort
        )
    return value


def _describe_count(key: str, count: int) -> str:
    if not count:
        return f"`old_str` does not occur in entry {key!r}; read it again and copy the text exactly"
    return (
        f"`old_str` occurs {count} times in entry {key!r}; add surrounding text so that it occurs "
        "once"
    )


@dataclass(frozen=True, slots=True)
class RenameItem(Identity):
    """The entry to move, and its new place. Only the agent that wrote it can."""

    store: StoreId
    """The store."""
    key: Key
    """The key."""
    to_store: StoreId
    """The store of the new key."""
    to_key: Key
    """The new key, which must be free."""
    namespace: Namespace = ""
    """The namespace within both stores."""


@operation("items.rename", access="write", mutates=True, home="stores")
def rename(tx: Transaction, wanted: RenameItem, context: Context) -> ItemView:
    """Move the agent's own entry to another key or store.

    It keeps its guid, flags, end and history. Its present key as the new key changes nothing.

    Raises Denied: when the agent has no readwrite access to one of the stores, another agent wrote
    the entry, or it is encrypted or sealed.
    Raises RecordNotFound: when there is no such entry.
    Raises KeyTaken: when an entry has the new key.
    Raises TooManyKeys: when the new store is full.
    """
    return rename_item(tx, wanted, context)


def rename_item(
    tx: Transaction, wanted: RenameItem, context: Context, *, internal: bool = True
) -> ItemView:
    """Move an entry inside an open transaction. Raises as `items.rename` does.

    Without `internal`, an internal entry does not exist.
    """
    for store in dict.fromkeys((wanted.store, wanted.to_store)):
        require(tx, wanted, store, Level.READWRITE)
    address = Address(wanted.store, wanted.namespace, wanted.key)
    target = Address(wanted.to_store, wanted.namespace, wanted.to_key)
    place = find_own_entry(tx, address, wanted.agent, internal=internal)
    if place is None:
        raise missing_entry(address)
    if target == address:
        return view_state(place.whole)
    _check_movable(place)
    _refuse_taken_key(tx, target, wanted.agent)
    if target.store != address.store:
        refuse_surplus_key(tx, target.store)
    return view_state(
        tx.table(ItemTable).change(place, place.whole._replace(scope=target.store, key=target.key))
    )


def _check_movable(place: StoredRecord) -> None:
    """Raise Denied if the key takes part in the encryption of the value."""
    if place.whole.encrypted or has_sealed_value(place.whole):
        raise Denied(
            f"entry {place.whole.key!r} is encrypted together with its key; read it, write it "
            "under the new key, and delete it"
        )


def _refuse_taken_key(tx: Transaction, target: Address, agent: str) -> None:
    """Raise KeyTaken if any agent has an entry at the new key."""
    if (
        tx.table(ItemTable).own_to_write(target, agent) is not None
        or tx.table(ItemTable).best(target, agent) is not None
    ):
        raise KeyTaken(
            f"key {target.key!r} of store {target.store!r} has an entry; delete it first, or use "
            "another key"
        )


@dataclass(frozen=True, slots=True)
class DeleteItem(Identity):
    """The entry to delete. Only the agent that wrote it can."""

    store: StoreId
    """The store."""
    key: Key
    """The key."""
    namespace: Namespace = ""
    """The namespace within the store."""
    if_version: Versions = ()
    """Delete only if the entry has one of these versions."""


@dataclass(frozen=True, slots=True)
class ItemDeleted:
    """The result of the deletion."""

    deleted: bool
    """Whether there was an entry."""


@operation("items.delete", access="delete", mutates=True, home="stores")
def delete(tx: Transaction, target: DeleteItem, context: Context) -> ItemDeleted:
    """Delete the agent's own entry. A missing key is no error.

    Raises Denied: when the agent has no readwrite access, or another agent wrote the entry.
    Raises VersionConflict: when the entry has another version, or does not exist.
    """
    return delete_item(tx, target, context)


def delete_item(
    tx: Transaction, target: DeleteItem, context: Context, *, internal: bool = True
) -> ItemDeleted:
    """Delete an entry inside an open transaction. Raises as `items.delete` does.

    Without `internal`, an internal entry does not exist.
    """
    require(tx, target, target.store, Level.READWRITE)
    address = Address(target.store, target.namespace, target.key)
    found = find_own_entry(tx, address, target.agent, internal=internal)
    check_entry_version(found, target.key, target.if_version)
    if found is not None:
        tx.records.delete(found)
    return ItemDeleted(found is not None)


@dataclass(frozen=True, slots=True)
class ResealItem:
    """An internal entry of any agent, and its value, sealed with another key."""

    store: StoreId
    """The store."""
    key: Key
    """The key."""
    owner: StoreId
    """The agent that wrote the entry."""
    value: str
    """The sealed value: `v1.` and three more parts."""
    namespace: Namespace = ""
    """The namespace within the store."""
    if_version: Versions = ()
    """Write only if the entry has one of these versions."""


@dataclass(frozen=True, slots=True)
class ItemResealed:
    """The result."""

    version: str
    """The new version of the entry."""


@operation("items.reseal", access="admin", mutates=True, home="stores")
def reseal(tx: Transaction, given: ResealItem, context: Context) -> ItemResealed:
    """Replace the sealed value of an internal entry. Grants and settings of agents do not count.

    Raises RecordNotFound: when the owner has no internal entry with the key, or its client
    encrypted it.
    Raises VersionConflict: when the entry has another version.
    Raises Refused: when the value is not sealed.
    """
    address = Address(given.store, given.namespace, given.key)
    place = tx.table(ItemTable).own(address, given.owner)
    if place is None or place.whole.encrypted or not is_hidden(place.whole):
        raise missing_entry(address)
    if not is_sealed(given.value):
        raise Refused("`value` is not sealed; use `memrelay reseal PIPELINE`, which has the keys")
    check_entry_version(place, given.key, given.if_version)
    _, data = encode(given.value, given.namespace, in_context=False, encrypted=False)
    return ItemResealed(
        version_of(tx.table(ItemTable).change(place, place.whole._replace(data=data)))
    )
