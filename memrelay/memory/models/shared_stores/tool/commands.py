"""The commands of the memory tool with Robutler's arguments, and the JSON that they return."""

from collections.abc import Callable
from typing import Any

import orjson

from memrelay.memory.errors import Denied, KeyTaken, NotText, TextNotUnique
from memrelay.memory.models.shared_stores.item import ItemView
from memrelay.memory.models.shared_stores.tool.arguments import ToolCall, ToolError
from memrelay.memory.models.shared_stores.tool.entries import Entries

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
SEARCH_LIMIT = 10
DENIED = "Access denied to this store"
# The errors of commands for a store without enough access. Others fail with a status.
DENIED_TEXTS = {
    "view": DENIED,
    "create": DENIED,
    "delete": DENIED,
    "rename": DENIED,
    "share": "You need write access to share this store",
    "unshare": "You need write access to unshare this store",
}
ACTION_DENIED = "Access denied"
MAX_LISTED = 1000
MAX_FOUND = 50
DONE = "OK"


def view(entries: Entries, call: ToolCall) -> Any:
    """Return an entry, None if there is none; or the entries of a folder; or the stores."""
    address = call.address
    if address.lists_stores:
        return stores(entries, call)
    if address.key:
        stored = entries.find(address)
        return None if stored is None else entry_json(stored)
    page = entries.page(address.store, address.prefix, cursor=call.cursor)
    return {
        "entries": [
            {
                "key": entry.key,
                "size": len(to_text(entry.value).encode()),
                "ownerId": entry.owner,
                "updatedAt": entry.updated_at,
            }
            for entry in page.entries
        ],
        "keys": list(page.keys),
        "cursor": page.next_cursor,
    }


def create(entries: Entries, call: ToolCall) -> str:
    """Write an entry. An existing one of the agent is overwritten."""
    address = call.address
    entries.put(address.store, entries.choose_key(address), call.value, entries.default_ttl_s)
    return f"Created {address.path}"


def edit(entries: Entries, call: ToolCall) -> str:
    """Replace the only occurrence of a text in an entry."""
    path, old = call.address.path, call.old_str
    try:
        entry = entries.find(call.address)
    except Denied as error:
        raise _not_found(path) from error
    if entry is None:
        raise _not_found(path)
    try:
        done = entries.edit(entry, old, call.new_str)
    except NotText as error:
        raise ToolError(
            f"Cannot edit {path}: value is {error.sort}, not text. Use create to overwrite, or "
            "fetch + delete + create to convert."
        ) from error
    except TextNotUnique as error:
        raise ToolError(_describe_count(path, error.count)) from error
    before, after = done.before, done.after
    return f"Edited {path}\n  - …{before}[{old}]{after}…\n  + …{before}[{call.new_str}]{after}…"


def _describe_count(path: str, count: int) -> str:
    if not count:
        return f"old_str not found in {path}"
    return (
        f"old_str matches {count} times in {path}. Add more surrounding context so the match is "
        "unique."
    )


def delete(entries: Entries, call: ToolCall) -> str:
    """Delete the agent's own entry."""
    address = call.address
    keys = (address.key, address.short_key) if address.short_key else (address.key,)
    if not any(entries.delete(address.store, key) for key in keys):
        raise _not_found(address.path)
    return f"Deleted {address.path}"


def rename(entries: Entries, call: ToolCall) -> str:
    """Move an entry. It never overwrites another one."""
    address, new = call.address, call.new_address
    entry = entries.find(address)
    if entry is None:
        raise _not_found(address.path)
    try:
        key = entries.choose_key(new)
        entries.rename(entry.store, entry.key, to_store=new.store, to_key=key)
    except KeyTaken as error:
        raise ToolError(
            f"{call.new_str} already exists. Choose another path, or delete it first."
        ) from error
    return f"Renamed {address.path} → {call.new_str}"


def _not_found(path: str) -> ToolError:
    return ToolError(f"Memory not found: {path}")


def search(entries: Entries, call: ToolCall) -> Any:
    """Return the best entries in all accessible stores, or in the store that the call names."""
    hits = entries.search(call.query, searched_stores(call), SEARCH_LIMIT)
    return {
        "results": [
            {
                "key": hit.key,
                "value": hit.value,
                "storeId": hit.store,
                "ownerId": hit.owner,
                "score": hit.score,
            }
            for hit in hits
        ]
    }


def searched_stores(call: ToolCall) -> tuple[str, ...]:
    """Return the stores to search, () for all."""
    is_limited = call.names_store and not call.address.lists_stores
    return (call.address.store,) if is_limited else ()


def stores(entries: Entries, call: ToolCall) -> Any:
    """Return a page of the stores that the agent can use."""
    page = entries.stores(call.cursor)
    listed = [
        {"storeId": one.store, "level": str(one.level), "source": one.source} for one in page.stores
    ]
    more = {} if page.next_cursor is None else {"cursor": page.next_cursor}
    return {"stores": listed} | more


def share(entries: Entries, call: ToolCall) -> Any:
    """Give another agent access to a store. The answer states whether that lowers its access."""
    lowers = entries.share(call.address.store, call.agent, call.level, call.ttl_s)
    return {"success": True, "lowers": True} if lowers else DONE


def unshare(entries: Entries, call: ToolCall) -> str:
    """End the access of another agent to a store."""
    entries.unshare(call.address.store, call.agent)
    return DONE


HANDLERS: dict[str, Callable[[Entries, ToolCall], Any]] = {
    "view": view,
    "create": create,
    "edit": edit,
    "delete": delete,
    "rename": rename,
    "search": search,
    "stores": stores,
    "share": share,
    "unshare": unshare,
}


def get_by_action(entries: Entries, call: ToolCall) -> Any:
    """Return an entry, None if there is none."""
    entry = entries.find(call.address)
    return None if entry is None else entry_json(entry)


def set_by_action(entries: Entries, call: ToolCall) -> str:
    """Write an entry. An existing one of the agent is overwritten."""
    ttl_s = entries.default_ttl_s if call.ttl_s is None else call.ttl_s
    entries.put(call.address.store, call.address.key, call.value, ttl_s)
    return DONE


def delete_by_action(entries: Entries, call: ToolCall) -> str:
    """Delete the agent's own entry, if there is one."""
    entries.delete(call.address.store, call.address.key)
    return DONE


def list_by_action(entries: Entries, call: ToolCall) -> Any:
    """Return the first entries of a store."""
    address = call.address
    page = entries.page(address.store, address.prefix, namespace=None, limit=MAX_LISTED)
    listed = [
        {field: getattr(entry, ENTRY_FIELDS[field]) for field in ACTION_FIELDS}
        for entry in page.entries
    ]
    return {"entries": listed}


def search_by_action(entries: Entries, call: ToolCall) -> Any:
    """Return the best entries in all accessible stores, or in the store that the call names."""
    hits = entries.search(call.query, searched_stores(call), MAX_FOUND)
    listed = [
        {
            "key": hit.key,
            "value": hit.value,
            "namespace": hit.namespace,
            "ownerId": hit.owner,
            "inContext": True,
            "storeId": hit.store,
        }
        for hit in hits
    ]
    return {"entries": listed}


ACTIONS: dict[str, Callable[[Entries, ToolCall], Any]] = {
    "get": get_by_action,
    "set": set_by_action,
    "delete": delete_by_action,
    "list": list_by_action,
    "search": search_by_action,
    "share": share,
    "unshare": unshare,
    "stores": stores,
}


def entry_json(view: ItemView) -> Json:
    """Return a whole entry."""
    return {field: getattr(view, name) for field, name in ENTRY_FIELDS.items()}


def to_text(value: Any) -> str:
    """Return a value as text: a string itself, any other value as JSON."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()
