"""Entries, hits and stores in the shape of Robutler's interfaces."""

from typing import Any

import orjson

from memrelay.memory.models.shared_stores.item import ItemView
from memrelay.memory.models.shared_stores.items import ItemHit
from memrelay.memory.models.shared_stores.stores import StorePage

Json = dict[str, Any]
# The fields of an entry, and their names in the operations.
ENTRY_FIELDS = {
    "key": "key",
    "value": "value",
    "namespace": "namespace",
    "storeId": "store",
    "ownerId": "owner",
    "inContext": "in_context",
    "encrypted": "encrypted",
    "createdAt": "created_at",
    "updatedAt": "updated_at",
    "expiresAt": "expires_at",
    "version": "version",
}
ACTION_FIELDS = ("key", "value", "namespace", "ownerId", "inContext")


def entry_json(view: ItemView) -> Json:
    """Return a whole entry."""
    return {field: getattr(view, name) for field, name in ENTRY_FIELDS.items()}


def folder_line_json(view: ItemView) -> Json:
    """Return an entry of a folder, without its value."""
    size = size_of(view.value)
    return {"key": view.key, "size": size, "ownerId": view.owner, "updatedAt": view.updated_at}


def action_entry_json(view: ItemView) -> Json:
    """Return an entry as the first generation of the tool lists it."""
    return {field: getattr(view, ENTRY_FIELDS[field]) for field in ACTION_FIELDS}


def action_hit_json(hit: ItemHit) -> Json:
    """Return a hit as the first generation of the tool does."""
    return {
        "key": hit.key,
        "value": hit.value,
        "namespace": hit.namespace,
        "ownerId": hit.owner,
        "inContext": True,
        "storeId": hit.store,
    }


def hit_json(hit: ItemHit) -> Json:
    """Return a hit of a search."""
    return {
        "key": hit.key,
        "value": hit.value,
        "storeId": hit.store,
        "ownerId": hit.owner,
        "score": hit.score,
    }


def stores_json(page: StorePage) -> Json:
    """Return stores that an agent can use, and a cursor if there are more."""
    listed = [
        {"storeId": one.store, "level": str(one.level), "source": one.source} for one in page.stores
    ]
    more = {} if page.next_cursor is None else {"cursor": page.next_cursor}
    return {"stores": listed} | more


def text_of(value: Any) -> str:
    """Return a value as text: a string itself, any other value as JSON."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def size_of(value: Any) -> int:
    """Return the bytes of a value as text."""
    return len(text_of(value).encode())
