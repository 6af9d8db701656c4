"""items.list: lists the entries of a shared store in pages, by key."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated

import orjson
from pydantic import Field

from memrelay.memory.errors import Refused
from memrelay.memory.items.access import Level, require
from memrelay.memory.items.identity import Identity, StoreId
from memrelay.memory.items.item import (
    MAX_KEY_CHARACTERS,
    ItemRow,
    ItemView,
    Namespace,
    view_row,
)
from memrelay.memory.items.table import Listing, Position
from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_list import MOST
from memrelay.memory.operations.records_read import MOST_ESCAPED, RECORD_BYTES
from memrelay.memory.sqlite.store import Transaction

# Characters of a cursor, which has up to three texts of 200 characters.
MAX_CURSOR_CHARACTERS = 8192
DIGEST_BYTES = 8
# Bytes of an entry in JSON besides its texts.
ENTRY_BYTES = 2 * RECORD_BYTES


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
    found = tx.items.page(listing, beyond, wanted.limit + 1)
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
