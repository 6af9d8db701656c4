"""Items: entries with keys in shared stores."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated, Any

import orjson
from pydantic import Field

from memrelay.memory.engine.filter_sql import Given
from memrelay.memory.engine.identity import ContextId, Identity, StoreId
from memrelay.memory.engine.keyed_table import new_state
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.versions import State, StoredRecord
from memrelay.memory.errors import (
    Denied,
    KeyTaken,
    NotText,
    RecordNotFound,
    Refused,
    TextNotUnique,
    TooManyKeys,
)
from memrelay.memory.models.shared_stores import ITEM_KIND
from memrelay.memory.models.shared_stores.access import Level, list_accessible, require
from memrelay.memory.models.shared_stores.grants import Ttl, compute_end
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
    make_version,
    read_namespace,
    view_row,
    view_state,
)
from memrelay.memory.models.shared_stores.table import ItemTable, Listing, Position
from memrelay.memory.operations import Context, Receipt, operation
from memrelay.memory.records.optimistic_locking import refuse_other_version
from memrelay.memory.records.paging import (
    MOST_ESCAPED,
    RECORD_BYTES,
    ByteBudget,
    Limit,
    refuse_too_large,
    take_within,
)
from memrelay.memory.records.view import Versions
from memrelay.memory.seal_keys import is_sealed
from memrelay.memory.search.search import SearchInput, search

# Entries of a store.
MAX_KEYS = 1_000_000
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
class EntryKey(Identity):
    """A key of a store, and the agent that calls. Pydantic reads no inherited docstrings."""

    store: Annotated[StoreId, Field(description="The store.")]
    key: Annotated[Key, Field(description="The key.")]


@dataclass(frozen=True, slots=True)
class PutItem(EntryKey):
    """An entry to write. It belongs to the calling agent."""

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


@operation("items.put", access="write", mutates=True, store="stores")
def put_item(tx: Transaction, request: PutItem, context: Context) -> PutResult:
    """Write an entry under its key. A new value replaces that of the agent's own entry.

    Raises Denied: when the agent has no readwrite access, or the entry is internal or encrypted
    and the call does not repeat that.
    Raises VersionConflict: when the entry has another version.
    Raises ValueTooLarge: when the value exceeds the limit of its kind.
    Raises TooManyKeys: when the store is full.
    """
    state, is_created, has_won = store_item(tx, request, context)
    return PutResult(view_state(state), created=is_created, won=has_won)


def store_item(tx: Transaction, request: PutItem, context: Context) -> tuple[State, bool, bool]:
    """Write an entry as `put_item` does. Return it as stored, whether it is new, and `won`."""
    require(tx, request, request.store, Level.READWRITE)
    table, address = tx.table(ItemTable), Address(request.store, request.namespace, request.key)
    stored = table.find_to_write(*address, request.agent)
    if request.if_absent and (present := stored or table.best(address, request.agent)) is not None:
        return present.state, False, False
    check_entry_version(stored, request.key, request.if_version)
    in_context, encrypted = request.in_context is not False, bool(request.encrypted)
    if stored is not None:
        becomes_visible = in_context and not stored.state.in_context
        if becomes_visible or (stored.state.encrypted and not encrypted):
            raise Denied(
                f"entry {request.key!r} is internal or encrypted and stays so; repeat "
                "`in_context: false` and `encrypted: true` as they are set, or delete the entry "
                "first"
            )
    content, data = encode(
        request.value, request.namespace, in_context=in_context, encrypted=encrypted
    )
    if stored is None:
        before = new_state(context.new_guid(), ITEM_KIND, context.now_ms, request.agent)
        before = before._replace(scope=request.store, key=request.key, owner=request.agent)
    else:
        before = stored.state
    after = before._replace(
        content=content,
        data=data,
        in_context=int(in_context),
        encrypted=int(encrypted),
        expires_at=compute_end(request.ttl_s, tx.records.versions.now_ms, before.expires_at),
    )
    if stored is None:
        refuse_surplus_key(tx, request.store)
        return table.insert(after), True, True
    # A value and flags that it has already change nothing.
    return before if after == before else table.change(stored, after), False, True


def check_entry_version(stored: StoredRecord | None, key: str, allowed: tuple[str, ...]) -> None:
    """Raise VersionConflict if an entry has none of the allowed versions; () allows all."""
    if allowed:
        version = "" if stored is None else make_version(stored.state)
        refuse_other_version(f"the agent's entry {key!r}", version, allowed)


def refuse_surplus_key(tx: Transaction, store: str) -> None:
    """Raise TooManyKeys if a store has no room for another entry."""
    if tx.table(ItemTable).count(store) >= MAX_KEYS:
        raise TooManyKeys(
            f"store {store!r} has {MAX_KEYS} keys, the maximum; delete some, or use another store"
        )


@dataclass(frozen=True, slots=True)
class GetItem(EntryKey):
    """The entry to read."""

    namespace: Namespace = ""
    """The namespace within the store."""
    owner: ContextId = ""
    """Read the entry of this agent. By default the caller's own, else the newest."""
    internal: bool = False
    """Whether to return an internal entry too. Otherwise it does not exist."""


@operation("items.get", access="read", mutates=False, store="stores", takes_as_of=True)
def get_item(tx: Transaction, request: GetItem, context: Context) -> ItemView:
    """Return an entry: the agent's own, else the newest with that key.

    Raises Denied: when the agent has no read access.
    Raises RecordNotFound: when there is no such entry.
    Raises ResultTooLarge: when the entry does not fit into an answer.
    """
    require(tx, request, request.store, Level.READ)
    address = Address(request.store, request.namespace, request.key)
    stored = find_entry(tx, address, request.agent, owner=request.owner, internal=request.internal)
    state = stored.state
    refuse_too_large(f"entry {state.key!r}", state.content, state.data, context.result_bytes)
    return view_state(state, with_hidden=True)


@dataclass(frozen=True, slots=True)
class ItemName:
    """Where an entry is."""

    store: str
    namespace: str
    key: str
    owner: str


@dataclass(frozen=True, slots=True)
class ItemOfEvent:
    """An entry in an event. It has no value: whoever reads it needs access to the store."""

    item: ItemName


def name_item(tx: Transaction, state: State) -> ItemOfEvent:
    """Return where a stored entry is."""
    namespace = read_namespace(state.data, state.guid)
    name = ItemName(state.scope, namespace, state.key or "", state.owner or "")
    return ItemOfEvent(name)


def find_entry(
    tx: Transaction, address: Address, agent: str, *, owner: str = "", internal: bool = False
) -> StoredRecord:
    """Return the entry that a read of the key returns. Raises RecordNotFound."""
    stored = tx.table(ItemTable).best(address, agent, owner, internal=internal)
    if stored is None:
        raise missing_entry(address)
    return stored


def missing_entry(address: Address) -> RecordNotFound:
    """Return the error for a key without an entry that the caller can see."""
    return RecordNotFound(
        f"no entry has the key {address.key!r} in store {address.store!r}; "
        "use items.list to see its keys"
    )


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
    limit: Limit = 100
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


@operation("items.list", access="read", mutates=False, store="stores", takes_as_of=True)
def list_items(tx: Transaction, request: ListItems, context: Context) -> ItemPage:
    """List the entries of a store by key, in pages. Writes of others shift no page.

    Raises Denied: when the agent has no read access.
    Raises Refused: when the cursor is invalid, or belongs to another list.
    """
    require(tx, request, request.store, Level.READ)
    listing = Listing(request.store, request.namespace, request.prefix, request.in_context)
    beyond = _read_cursor(request.cursor, listing)
    entries = tx.table(ItemTable).page(listing, beyond, request.limit + 1)
    budget = ByteBudget(context.result_bytes, _json_size, _size_bound)
    rows, has_more = take_within(entries, budget, request.limit)
    keys = dict.fromkeys(row.key for row in rows)
    if beyond is not None:
        keys.pop(beyond.key, None)
    return ItemPage(
        tuple(view_row(row, with_value=request.in_context) for row in rows),
        tuple(keys),
        _make_cursor(rows[-1], listing) if has_more else None,
    )


def _size_bound(row: ItemRow) -> int:
    """Return the largest possible size of an entry in an answer, which also lists its key."""
    names = len(row.store) + len(row.namespace) + 2 * len(row.key) + len(row.owner)
    return MOST_ESCAPED * (len(row.content) + len(row.data or "") + names) + ENTRY_BYTES


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
    receipt: Receipt = False
    """Whether to leave a receipt (docs/receipts.md), or the id of the answer that will use it."""


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


@operation("items.search", access="search", mutates=False, store="stores", embeds="query")
def search_items(tx: Transaction, request: SearchItems, context: Context) -> ItemHits:
    """Find entries by their words and their meaning, best first.

    It covers all stores that the agent can use, also those with search access only. Internal and
    encrypted entries are not found.

    Raises Refused: when the query exceeds a limit.
    Raises ResultTooLarge: when the result exceeds the size of an answer.
    Raises VectorPending: when the vector of the query is not computed yet.
    """
    accessible = [one.store for one in list_accessible(tx, request)[0]]
    stores = tuple(store for store in accessible if not request.stores or store in request.stores)
    if not stores:
        return ItemHits(())
    among = "r.scope IN (SELECT value FROM json_each(?))"
    listed = orjson.dumps(stores).decode()
    query = SearchInput(
        request.query,
        context.result_bytes,
        limit=request.limit,
        mode="hybrid",
        language=context.language,
        given=Given(f"({among} AND {IS_VISIBLE})", (listed,), {"stores": stores}),
        timezone=context.timezone,
    )
    hits = []
    for record in search(tx, query):
        extras = tx.records.extras(record.guid)
        hit = ItemHit(
            extras.key or "",
            decode(record.content, extras.data, record.guid),
            record.scope,
            extras.owner or "",
            read_namespace(extras.data, record.guid),
            record.score,
        )
        hits.append(hit)
    return ItemHits(tuple(hits))


@dataclass(frozen=True, slots=True)
class EditItem(EntryKey):
    """The part of a text to replace."""

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


@operation("items.edit", access="write", mutates=True, store="stores")
def edit_item(tx: Transaction, change: EditItem, context: Context) -> EditResult:
    """Replace a part of the text that a read of the key returns. It must occur exactly once.

    The entry keeps its owner, flags and end. An internal entry does not exist for this operation.

    Raises Denied: when the agent has no readwrite access, the entry is encrypted, or the agent's
    own entry is internal and another agent has a visible one.
    Raises RecordNotFound: when there is no such entry.
    Raises NotText: when the value is not a text.
    Raises TextNotUnique: when the old text is missing or occurs several times.
    Raises ValueTooLarge: when the new text is too long.
    """
    require(tx, change, change.store, Level.READWRITE)
    if not change.old_str:
        raise Refused("`old_str` is empty; name the text to replace")
    address = Address(change.store, change.namespace, change.key)
    stored = find_entry(tx, address, change.agent)
    state = stored.state
    is_own = state.owner == change.agent
    if not is_own and tx.table(ItemTable).find(*address, change.agent) is not None:
        raise Denied(
            f"the agent's own entry {change.key!r} is internal, and the visible one belongs to "
            f"{state.owner!r}; write the own entry with items.put"
        )
    text = _read_text(state)
    count = text.count(change.old_str)
    if count != 1:
        raise TextNotUnique(_describe_count(change.key, count), count)
    before, _, after = text.partition(change.old_str)
    edited = before + change.new_str + after
    content, _ = encode(edited, change.namespace, in_context=True, encrypted=False)
    if content != state.content:
        state = tx.table(ItemTable).change(stored, state._replace(content=content))
    return EditResult(view_state(state), before[-CONTEXT_CHARACTERS:], after[:CONTEXT_CHARACTERS])


def _read_text(state: State) -> str:
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


def _describe_count(key: str, count: int) -> str:
    if not count:
        return f"`old_str` does not occur in entry {key!r}; read it again and copy the text exactly"
    return (
        f"`old_str` occurs {count} times in entry {key!r}; add surrounding text so that it occurs "
        "once"
    )


@dataclass(frozen=True, slots=True)
class RenameItem(EntryKey):
    """The entry to move, and its new place. Only the agent that wrote it can."""

    to_store: StoreId
    """The store of the new key."""
    to_key: Key
    """The new key, which must be free."""
    namespace: Namespace = ""
    """The namespace within both stores."""


@operation("items.rename", access="write", mutates=True, store="stores")
def rename_item(
    tx: Transaction, request: RenameItem, context: Context, *, internal: bool = True
) -> ItemView:
    """Move the agent's own entry to another key or store.

    It keeps its guid, flags, end and history. Its present key as the new key changes nothing.

    Raises Denied: when the agent has no readwrite access to one of the stores, another agent wrote
    the entry, or it is encrypted or sealed.
    Raises RecordNotFound: when there is no such entry.
    Raises KeyTaken: when an entry has the new key.
    Raises TooManyKeys: when the new store is full.
    """
    for store in dict.fromkeys((request.store, request.to_store)):
        require(tx, request, store, Level.READWRITE)
    address = Address(request.store, request.namespace, request.key)
    target = Address(request.to_store, request.namespace, request.to_key)
    stored = find_own_entry(tx, address, request.agent, internal=internal)
    if stored is None:
        raise missing_entry(address)
    if target == address:
        return view_state(stored.state)
    if stored.state.encrypted or has_sealed_value(stored.state):
        # The key takes part in the encryption of the value.
        raise Denied(
            f"entry {stored.state.key!r} is encrypted together with its key; read it, write it "
            "under the new key, and delete it"
        )
    table = tx.table(ItemTable)
    own = table.find_to_write(*target, request.agent)
    if own is not None or table.best(target, request.agent) is not None:
        raise KeyTaken(
            f"key {target.key!r} of store {target.store!r} has an entry; delete it first, or use "
            "another key"
        )
    if target.store != address.store:
        refuse_surplus_key(tx, target.store)
    moved = stored.state._replace(scope=target.store, key=target.key)
    return view_state(table.change(stored, moved))


def find_own_entry(
    tx: Transaction, address: Address, agent: str, *, internal: bool
) -> StoredRecord | None:
    """Return the agent's own entry before a change, None if no agent has a visible one.

    Without `internal`, an internal entry does not exist. Raises Denied if only another agent has
    an entry with the key.
    """
    own = tx.table(ItemTable).find_to_write(*address, agent)
    if own is not None and (internal or own.state.in_context):
        return own
    other = tx.table(ItemTable).best(address, agent, internal=internal)
    if other is None:
        return None
    raise Denied(
        f"entry {address.key!r} belongs to agent {other.state.owner!r}; only that agent can "
        "rename or delete it"
    )


@dataclass(frozen=True, slots=True)
class DeleteItem(EntryKey):
    """The entry to delete. Only the agent that wrote it can."""

    namespace: Namespace = ""
    """The namespace within the store."""
    if_version: Versions = ()
    """Delete only if the entry has one of these versions."""


@dataclass(frozen=True, slots=True)
class ItemDeleted:
    """The result of the deletion."""

    deleted: bool
    """Whether there was an entry."""


@operation("items.delete", access="delete", mutates=True, store="stores")
def delete_item(
    tx: Transaction, request: DeleteItem, context: Context, *, internal: bool = True
) -> ItemDeleted:
    """Delete the agent's own entry. A missing key is no error.

    Raises Denied: when the agent has no readwrite access, or another agent wrote the entry.
    Raises VersionConflict: when the entry has another version, or does not exist.
    """
    require(tx, request, request.store, Level.READWRITE)
    address = Address(request.store, request.namespace, request.key)
    stored = find_own_entry(tx, address, request.agent, internal=internal)
    check_entry_version(stored, request.key, request.if_version)
    if stored is not None:
        tx.records.delete(stored)
    return ItemDeleted(stored is not None)


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


@operation("items.reseal", access="admin", mutates=True, store="stores")
def reseal(tx: Transaction, request: ResealItem, context: Context) -> ItemResealed:
    """Replace the sealed value of an internal entry. Grants and settings of agents do not count.

    Raises RecordNotFound: when the owner has no internal entry with the key, or its client
    encrypted it.
    Raises VersionConflict: when the entry has another version.
    Raises Refused: when the value is not sealed.
    """
    address = Address(request.store, request.namespace, request.key)
    stored = tx.table(ItemTable).find(*address, request.owner)
    if stored is None or stored.state.encrypted or not is_hidden(stored.state):
        raise missing_entry(address)
    if not is_sealed(request.value):
        raise Refused("`value` is not sealed; use `memrelay reseal PIPELINE`, which has the keys")
    check_entry_version(stored, request.key, request.if_version)
    _, data = encode(request.value, request.namespace, in_context=False, encrypted=False)
    state = tx.table(ItemTable).change(stored, stored.state._replace(data=data))
    return ItemResealed(make_version(state))
