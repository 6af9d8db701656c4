"""The actions of the memory tool with Robutler's first arguments (G1)."""

from collections.abc import Callable
from typing import Any

from memrelay.memory.models.shared_stores.tool import commands
from memrelay.memory.models.shared_stores.tool.arguments import ToolCall
from memrelay.memory.models.shared_stores.tool.entries import Entries
from memrelay.memory.models.shared_stores.tool.shapes import (
    action_entry_json,
    action_hit_json,
    entry_json,
)

MAX_LISTED = 1000
MAX_FOUND = 50
DENIED = "Access denied"
DONE = "OK"


def get(entries: Entries, call: ToolCall) -> Any:
    """Return an entry, None if there is none."""
    found = entries.find(call.address)
    return None if found is None else entry_json(found)


def put(entries: Entries, call: ToolCall) -> str:
    """Write an entry. An existing one of the agent is overwritten."""
    ttl_s = entries.default_ttl_s if call.ttl_s is None else call.ttl_s
    entries.put(call.address.store, call.address.key, call.value, ttl_s)
    return DONE


def delete(entries: Entries, call: ToolCall) -> str:
    """Delete the agent's own entry, if there is one."""
    entries.delete(call.address.store, call.address.key)
    return DONE


def list_entries(entries: Entries, call: ToolCall) -> Any:
    """Return the first entries of a store."""
    address = call.address
    page = entries.page(address.store, address.prefix, namespace=None, limit=MAX_LISTED)
    return {"entries": [action_entry_json(entry) for entry in page.entries]}


def search(entries: Entries, call: ToolCall) -> Any:
    """Return the best entries in all accessible stores, or in the store that the call names."""
    hits = entries.search(call.query, commands.searched_stores(call), MAX_FOUND)
    return {"entries": [action_hit_json(hit) for hit in hits]}


HANDLERS: dict[str, Callable[[Entries, ToolCall], Any]] = {
    "get": get,
    "set": put,
    "delete": delete,
    "list": list_entries,
    "search": search,
    "share": commands.share,
    "unshare": commands.unshare,
    "stores": commands.stores,
}
