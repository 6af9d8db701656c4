"""Parses the arguments of the memory tool, in any of Robutler's three generations.

- G1: `action`, `store` and `key`
- G2: `command` and `path`
- G3: `command`, `scope` or `store`, and `key`
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from memrelay.memory.engine.identity import MAX_ID_CHARACTERS, Identity
from memrelay.memory.models.shared_stores.grants import MAX_TTL_S
from memrelay.memory.models.shared_stores.tool.answer import BAD_REQUEST, ToolError, failure_of
from memrelay.memory.models.shared_stores.tool.paths import Address, make_path, parse_path

MAX_KEY_CHARACTERS = 200
SHARING = ("share", "unshare")
COMMANDS = ("view", "create", "edit", "delete", "rename", "search", *SHARING, "stores")
ACTIONS = ("get", "set", "delete", "list", "search", *SHARING, "stores")
READING = ("view", "search", "stores", "get", "list")
LEVELS = ("search", "read", "readwrite")
SCOPES = ("agent", "user", "chat")
# The texts that a command takes besides its address.
TEXTS: dict[str, tuple[str, ...]] = {
    "view": ("cursor",),
    "edit": ("old_str", "new_str"),
    "rename": ("new_str",),
    "search": ("query",),
    "stores": ("cursor",),
    "share": ("agent",),
    "unshare": ("agent",),
}
OWN_STORE = "self"
DEFAULT_LEVEL = "read"
NOWHERE = Address("")
NO_NEW_PATH = "path and new_str (new path) are required for rename"


class ToolCall(NamedTuple):
    """One call of the tool. Optional arguments that are null count as absent.

    - `is_action`: whether the arguments are of G1
    - `new_address`: where a rename moves the entry
    - `names_store`: whether the call names a store, so that a search is limited to it
    - `ttl_s`: seconds until the entry or the grant expires, 0 for never, None for the default
    """

    command: str
    address: Address
    is_action: bool = False
    names_store: bool = False
    value: Any = None
    old_str: str = ""
    new_str: str = ""
    query: str = ""
    agent: str = ""
    level: str = DEFAULT_LEVEL
    ttl_s: float | None = None
    cursor: str = ""
    new_address: Address = NOWHERE


def is_read(arguments: Mapping[str, Any], dialect: str = "robutler") -> bool:
    """Return whether a call changes nothing: it is one of `memory_tool.read`.

    An unknown command is only answered, so it is a read too.
    """
    if dialect == "anthropic":
        changing: tuple[str, ...] = ("create", "str_replace", "insert", "delete", "rename")
        return arguments.get("command") not in changing
    known, command = _select_command(arguments)
    return command not in known or command in READING


def parse_call(
    arguments: Mapping[str, Any], identity: Identity, *, sharing: bool = True
) -> ToolCall:
    """Return the call. Raises ToolError: an argument is missing or invalid."""
    known, command = _select_command(arguments)
    usable = [name for name in known if sharing or name not in SHARING]
    if command not in usable:
        raise unknown_command(command, usable, is_action=known is ACTIONS)
    if known is ACTIONS:
        return _parse_action(command, arguments, identity)
    return _parse_command(command, arguments, identity)


def _select_command(arguments: Mapping[str, Any]) -> tuple[tuple[str, ...], str]:
    """Return the commands of the generation, and the given one."""
    command, action = arguments.get("command"), arguments.get("action")
    if command is None and action is not None:
        return ACTIONS, str(action)
    return COMMANDS, "" if command is None else str(command)


def unknown_command(command: str, usable: Sequence[str], *, is_action: bool = False) -> ToolError:
    """Return the error for a missing or unknown command."""
    *others, last = usable
    if is_action:
        return ToolError(f"Unknown action: {command}" if command else "action is required")
    fault = f"Unknown command: {command}" if command else "command is required"
    return ToolError(f"{fault}. Use {', '.join(others)}, or {last}.")


def _parse_action(action: str, arguments: Mapping[str, Any], identity: Identity) -> ToolCall:
    """Parse arguments of G1. A key is any text."""
    store, key = _text(arguments, "store"), _text(arguments, "key")
    query, agent = _text(arguments, "query"), _text(arguments, "agent")
    if action in ("get", "set", "delete"):
        _require("key", given=key != "")
    if action == "set":
        _require("value", given="value" in arguments)
    if action == "search":
        _require("query", given=query.strip() != "")
    if action in SHARING:
        _require("agent", given=agent != "")
    names_store = store not in ("", OWN_STORE)
    address = Address(
        store if names_store else identity.agent, key, "" if key else _text(arguments, "prefix")
    )
    _check_lengths(address, action, agent)
    return ToolCall(
        action,
        address,
        is_action=True,
        names_store=store != "",
        value=arguments.get("value"),
        query=query,
        agent=agent,
        level=_level(arguments, action),
        ttl_s=_ttl_s(arguments, action),
        cursor=_text(arguments, "cursor") if action == "stores" else "",
    )


def _require(name: str, *, given: bool) -> None:
    if not given:
        raise ToolError(f"{name} is required")


def _parse_command(command: str, arguments: Mapping[str, Any], identity: Identity) -> ToolCall:
    """Parse arguments of G2 and G3."""
    address = _find_address(command, arguments, identity)
    texts: dict[str, Any] = {name: _text(arguments, name) for name in TEXTS.get(command, ())}
    call = ToolCall(
        command,
        address,
        names_store=command == "search" and any(map(arguments.get, ("path", "store", "scope"))),
        value=arguments.get("content"),
        level=_level(arguments, command) if command in SHARING else DEFAULT_LEVEL,
        ttl_s=_ttl_s(arguments, command) if command == "share" else None,
        **texts,
    )
    if fault := _find_fault(call, has_new_str=arguments.get("new_str") is not None):
        raise ToolError(fault)
    if address.lists_stores and command in SHARING:
        raise failure_of(command, BAD_REQUEST)
    _check_lengths(address, verb_of(call), call.agent)
    if command != "rename":
        return call
    has_path = arguments.get("path") is not None
    return call._replace(new_address=_find_new_address(call, identity, has_path=has_path))


def _find_new_address(call: ToolCall, identity: Identity, *, has_path: bool) -> Address:
    """Return the new address. A bare name stays in the store, and is any text in G3."""
    store, new = call.address.store, call.new_str
    if has_path or new.startswith("/"):
        address = parse_path(new, identity.agent, store)
    else:
        address = Address(store, new, path=new)
    if not address.key:
        raise ToolError(NO_NEW_PATH)
    _check_lengths(address, call.command)
    return address


def verb_of(call: ToolCall) -> str:
    """Return the name of the call in errors."""
    if call.command != "view":
        return call.command
    return "get" if call.address.key else "list"


def _find_fault(call: ToolCall, *, has_new_str: bool) -> str:
    """Return what the call lacks, "" for nothing."""
    command, key = call.command, call.address.key
    match command:
        case "create" if call.value is None:
            return "content is required for create"
        case "create" | "delete" if not key:
            return f"path must include a filename for {command}"
        case "edit" if not key:
            return "path is required for edit"
        case "edit" if not call.old_str or not has_new_str:
            return "old_str and new_str are required for edit"
        case "rename" if not key or not call.new_str:
            return NO_NEW_PATH
        case "search" if not call.query.strip():
            return "query is required for search"
        case "share" | "unshare" if not call.agent:
            return f"agent is required for {command}"
    return ""


def _find_address(command: str, arguments: Mapping[str, Any], identity: Identity) -> Address:
    """Return the address: a path wins over a store, and a store over a scope."""
    path = arguments.get("path")
    if path is not None:
        path = _text(arguments, "path")
        if path or command not in ("view", "create", "edit", "delete"):
            return parse_path(path, identity.agent)
        raise ToolError(f"path is required for {command}")
    store, key = _text(arguments, "store"), _text(arguments, "key")
    store = store or _store_of_scope(_text(arguments, "scope"), identity)
    return Address(store, key, path=make_path(store, key, identity.agent))


def _store_of_scope(scope: str, identity: Identity) -> str:
    if scope not in ("", *SCOPES):
        raise ToolError(f"Unknown scope: {scope}. Use {', '.join(SCOPES[:-1])}, or {SCOPES[-1]}.")
    store = {"user": identity.user, "chat": identity.chat}.get(scope, identity.agent)
    if not store:
        raise ToolError(f'scope "{scope}" needs a {scope}Id in this conversation')
    return store


def _text(arguments: Mapping[str, Any], name: str) -> str:
    """Return an optional text, "" if it is absent."""
    value = arguments.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ToolError(f"{name} must be text, not {type_of(value)}")
    return value


def _level(arguments: Mapping[str, Any], verb: str) -> str:
    level = _text(arguments, "level") or DEFAULT_LEVEL
    if level not in LEVELS:
        raise failure_of(verb, BAD_REQUEST)
    return level


def _ttl_s(arguments: Mapping[str, Any], verb: str) -> float | None:
    ttl_s = arguments.get("ttl")
    if ttl_s is None:
        return None
    if isinstance(ttl_s, bool) or not isinstance(ttl_s, int | float) or ttl_s < 0:
        raise failure_of(verb, BAD_REQUEST)
    if ttl_s > MAX_TTL_S:
        raise failure_of(verb, BAD_REQUEST)
    return float(ttl_s)


def _check_lengths(address: Address, verb: str, agent: str = "") -> None:
    longest = max(len(address.key), len(address.prefix))
    longest_id = max(len(address.store), len(agent))
    if longest > MAX_KEY_CHARACTERS or longest_id > MAX_ID_CHARACTERS:
        raise failure_of(verb, BAD_REQUEST)


def type_of(value: Any) -> str:
    """Return the type of a JSON value, as JavaScript names it; "null" for None."""
    if value is None:
        return "null"
    names = {bool: "boolean", str: "string", int: "number", float: "number"}
    return names.get(type(value), "object")
