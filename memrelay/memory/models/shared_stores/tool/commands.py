"""The commands of the memory tool with Robutler's arguments G2 and G3."""

from collections.abc import Callable
from typing import Any

from memrelay.memory.errors import Denied, KeyTaken, NotText, TextNotUnique
from memrelay.memory.models.shared_stores.tool.answer import ToolError
from memrelay.memory.models.shared_stores.tool.arguments import ToolCall
from memrelay.memory.models.shared_stores.tool.entries import Entries
from memrelay.memory.models.shared_stores.tool.shapes import (
    entry_json,
    folder_line_json,
    hit_json,
    stores_json,
)

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


def view(entries: Entries, call: ToolCall) -> Any:
    """Return an entry, None if there is none; or the entries of a folder; or the stores."""
    address = call.address
    if address.lists_stores:
        return stores(entries, call)
    if address.key:
        found = entries.find(address)
        return None if found is None else entry_json(found)
    page = entries.page(address.store, address.prefix, cursor=call.cursor)
    return {
        "entries": [folder_line_json(entry) for entry in page.entries],
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
        found = entries.find(call.address)
    except Denied as error:
        raise _not_found(path) from error
    if found is None:
        raise _not_found(path)
    try:
        done = entries.edit(found, old, call.new_str)
    except NotText as error:
        raise ToolError(
            f"Cannot edit {path}: value is {error.sort}, not text. Use create to overwrite, or "
            "fetch + delete + create to convert."
        ) from error
    except TextNotUnique as error:
        raise ToolError(_describe_count(path, error.count)) from error
    before, after = done.before, done.after
    return f"Edited {path}\n  - …{before}[{old}]{after}…\n  + …{before}[{call.new_str}]{after}…"


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
    found = entries.find(address)
    if found is None:
        raise _not_found(address.path)
    try:
        key = entries.choose_key(new)
        entries.rename(found.store, found.key, to_store=new.store, to_key=key)
    except KeyTaken as error:
        raise ToolError(
            f"{call.new_str} already exists. Choose another path, or delete it first."
        ) from error
    return f"Renamed {address.path} → {call.new_str}"


def search(entries: Entries, call: ToolCall) -> Any:
    """Return the best entries in all accessible stores, or in the store that the call names."""
    hits = entries.search(call.query, searched_stores(call), SEARCH_LIMIT)
    return {"results": [hit_json(hit) for hit in hits]}


def searched_stores(call: ToolCall) -> tuple[str, ...]:
    """Return the stores to search, () for all."""
    is_limited = call.names_store and not call.address.lists_stores
    return (call.address.store,) if is_limited else ()


def stores(entries: Entries, call: ToolCall) -> Any:
    """Return a page of the stores that the agent can use."""
    return stores_json(entries.stores(call.cursor))


def share(entries: Entries, call: ToolCall) -> str:
    """Give another agent access to a store."""
    entries.share(call.address.store, call.agent, call.level, call.ttl_s)
    return "OK"


def unshare(entries: Entries, call: ToolCall) -> str:
    """End the access of another agent to a store."""
    entries.unshare(call.address.store, call.agent)
    return "OK"


def _describe_count(path: str, count: int) -> str:
    if not count:
        return f"old_str not found in {path}"
    return (
        f"old_str matches {count} times in {path}. Add more surrounding context so the match is "
        "unique."
    )


def _not_found(path: str) -> ToolError:
    return ToolError(f"Memory not found: {path}")


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
