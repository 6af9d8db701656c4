"""The calls of the memory tool: arguments, paths, answers, schema and scopes of keys.

The arguments have one of Robutler's three generations:

- G1: `action`, `store` and `key`
- G2: `command` and `path`
- G3: `command`, `scope` or `store`, and `key`

A path is `/memories/KEY`, or `/memories/shared/STORE/KEY`. In STORE, a slash is `%2F` and a percent
sign is `%25`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from memrelay.memory.engine.identity import MAX_ID_CHARACTERS, Identity
from memrelay.memory.errors import (
    Denied,
    RecordNotFound,
    Refused,
    ResultTooLarge,
    TooManyKeys,
    ValueTooLarge,
    VersionConflict,
)
from memrelay.memory.models.shared_stores.grants import MAX_TTL_S

ROOT = "/memories"
SHARED = "shared/"
# Models add it to keys. A path with it also finds the key without it.
SUFFIX = ".md"
ENCODED = re.compile("%(2F|25)", re.IGNORECASE)
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
NO_NEW_PATH = "path and new_str (new path) are required for rename"
BAD_REQUEST = 400
# The HTTP status of each refusal on Robutler's paths. The first class that matches counts.
STATUSES: tuple[tuple[type[Refused], int], ...] = (
    (Denied, 403),
    (RecordNotFound, 404),
    (VersionConflict, 409),
    (ValueTooLarge, 413),
    (ResultTooLarge, 413),
    (TooManyKeys, 429),
)


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """The answer to a tool call."""

    value: Any
    """The answer for the model: a text or a JSON value."""
    is_error: bool = False
    """Whether the command failed. Nothing changed then."""


class ToolError(Exception):
    """The command ends with this text as its error."""


def failure(verb: str, refused: Refused) -> ToolError:
    """Return the error of a command that failed for a reason without a text of its own."""
    statuses = (status for kind, status in STATUSES if isinstance(refused, kind))
    return make_failure(verb, next(statuses, BAD_REQUEST))


def make_failure(verb: str, status: int) -> ToolError:
    """Return the error of a command that failed with an HTTP status."""
    return ToolError(f"Memory {verb} failed: {status}")


class Address(NamedTuple):
    """The entry or folder that a tool call names.

    `key` is "" for a folder, and then `prefix` selects its keys. `short_key` is the key to use if
    no entry has `key`; "" for none. `path` names the address in answers. An address that
    `lists_stores` has no store.
    """

    store: str
    key: str = ""
    prefix: str = ""
    short_key: str = ""
    path: str = ""
    lists_stores: bool = False


NOWHERE = Address("")


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
    commands, command = _select_command(arguments)
    return command not in commands or command in READING


def parse_call(
    arguments: Mapping[str, Any], identity: Identity, *, sharing: bool = True
) -> ToolCall:
    """Return the call. Raises ToolError: an argument is missing or invalid."""
    commands, command = _select_command(arguments)
    usable = [name for name in commands if sharing or name not in SHARING]
    if command not in usable:
        raise unknown_command(command, usable, is_action=commands is ACTIONS)
    if commands is ACTIONS:
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
        _require("key", is_set=key != "")
    if action == "set":
        _require("value", is_set="value" in arguments)
    if action == "search":
        _require("query", is_set=query.strip() != "")
    if action in SHARING:
        _require("agent", is_set=agent != "")
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


def _require(name: str, *, is_set: bool) -> None:
    if not is_set:
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
        raise make_failure(command, BAD_REQUEST)
    _check_lengths(address, name_verb(call), call.agent)
    if command != "rename":
        return call
    has_path = arguments.get("path") is not None
    return call._replace(new_address=_find_new_address(call, identity, has_path=has_path))


def _find_address(command: str, arguments: Mapping[str, Any], identity: Identity) -> Address:
    """Return the address: a path wins over a store, and a store over a scope."""
    path = arguments.get("path")
    if path is not None:
        path = _text(arguments, "path")
        if path or command not in ("view", "create", "edit", "delete"):
            return parse_path(path, identity.agent)
        raise ToolError(f"path is required for {command}")
    store, key = _text(arguments, "store"), _text(arguments, "key")
    store = store or _find_store(_text(arguments, "scope"), identity)
    return Address(store, key, path=make_path(store, key, identity.agent))


def _find_store(scope: str, identity: Identity) -> str:
    if scope not in ("", *SCOPES):
        raise ToolError(f"Unknown scope: {scope}. Use {', '.join(SCOPES[:-1])}, or {SCOPES[-1]}.")
    store = {"user": identity.user, "chat": identity.chat}.get(scope, identity.agent)
    if not store:
        raise ToolError(f'scope "{scope}" needs a {scope}Id in this conversation')
    return store


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


def name_verb(call: ToolCall) -> str:
    """Return the name of the call in errors."""
    if call.command != "view":
        return call.command
    return "get" if call.address.key else "list"


def _level(arguments: Mapping[str, Any], verb: str) -> str:
    level = _text(arguments, "level") or DEFAULT_LEVEL
    if level not in LEVELS:
        raise make_failure(verb, BAD_REQUEST)
    return level


def _ttl_s(arguments: Mapping[str, Any], verb: str) -> float | None:
    ttl_s = arguments.get("ttl")
    if ttl_s is None:
        return None
    is_number = isinstance(ttl_s, int | float) and not isinstance(ttl_s, bool)
    if not is_number or not 0 <= ttl_s <= MAX_TTL_S:
        raise make_failure(verb, BAD_REQUEST)
    return float(ttl_s)


def _text(arguments: Mapping[str, Any], name: str) -> str:
    """Return an optional text, "" if it is absent."""
    value = arguments.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ToolError(f"{name} must be text, not {name_type(value)}")
    return value


def name_type(value: Any) -> str:
    """Return the type of a JSON value, as JavaScript names it; "null" for None."""
    if value is None:
        return "null"
    names = {bool: "boolean", str: "string", int: "number", float: "number"}
    return names.get(type(value), "object")


def _check_lengths(address: Address, verb: str, agent: str = "") -> None:
    longest = max(len(address.key), len(address.prefix))
    longest_id = max(len(address.store), len(agent))
    if longest > MAX_KEY_CHARACTERS or longest_id > MAX_ID_CHARACTERS:
        raise make_failure(verb, BAD_REQUEST)


def parse_path(path: str, own_store: str, bare_store: str = "") -> Address:
    """Return the address of a path. A bare name is a key in `bare_store`, by default the own store.

    Raises ToolError: the path is invalid.
    """
    if path.startswith("/"):
        store, rest = _split_store(path, own_store)
    else:
        store, rest = bare_store or own_store, path
    if ".." in rest.split("/") or store == "..":
        raise _invalid(path)
    if not store:
        return Address("", path=path, lists_stores=True)
    if not rest or rest.endswith("/"):
        return Address(store, prefix=rest, path=path)
    return Address(
        store, rest, short_key=rest.removesuffix(SUFFIX) if rest.endswith(SUFFIX) else "", path=path
    )


def make_path(store: str, key: str, own_store: str) -> str:
    """Return the path of a key."""
    if store == own_store:
        return f"{ROOT}/{key}"
    encoded = store.replace("%", "%25").replace("/", "%2F")
    return f"{ROOT}/{SHARED}{encoded}/{key}"


def _split_store(path: str, own_store: str) -> tuple[str, str]:
    """Return (store, rest) of an absolute path. The store is "" for the list of stores."""
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise _invalid(path)
    below = path[len(ROOT) + 1 :]
    if not below.startswith(SHARED):
        return own_store, below
    store, _, rest = below.removeprefix(SHARED).partition("/")
    if not store and below != SHARED:
        raise _invalid(path)
    return ENCODED.sub(lambda match: "%" if match[1] == "25" else "/", store), rest


def _invalid(path: str) -> ToolError:
    return ToolError(
        f"Invalid path: {path}. Use {ROOT}/{{key}} or {ROOT}/{SHARED}{{store}}/{{key}}."
    )


# The commands and actions of both dialects. An unknown command is only answered.
KEY_SCOPES = {
    "view": "read",
    "get": "read",
    "list": "read",
    "stores": "read",
    "search": "search",
    "create": "write",
    "set": "write",
    "edit": "write",
    "str_replace": "write",
    "insert": "write",
    "rename": "write",
    "share": "write",
    "unshare": "write",
    "delete": "delete",
}


def find_key_scope(arguments: Mapping[str, Any]) -> str:
    """Return the scope that a call of the tool needs, "" for an unknown command."""
    command = arguments.get("command")
    if command is None:
        command = arguments.get("action")
    return KEY_SCOPES.get(str(command), "")


DESCRIPTIONS = {
    "view": "read one entry by its key; without a key, list the entries of the store",
    "create": "write `content` under a key; an existing entry is overwritten",
    "edit": "replace `old_str`, which must occur exactly once in the entry, with `new_str`",
    "delete": "delete an entry",
    "rename": "move an entry to the key or path `new_str`",
    "search": "find entries in all accessible stores, or in one, that match `query`",
    "stores": "list the stores that you can access",
}


def tool_schema() -> dict[str, Any]:
    """Return the schema of the arguments.

    Share and unshare work too. They are not listed, because a text that a model reads could ask it
    to share a store.
    """
    lines = [f"- {name}: {text}." for name, text in DESCRIPTIONS.items()]
    properties = {
        "command": {
            "type": "string",
            "enum": list(DESCRIPTIONS),
            "description": "\n".join(["What to do:", *lines]),
        },
        **_address_properties(),
        "content": _text_schema("The text to write, for create."),
        "old_str": _text_schema("The text to replace, for edit."),
        "new_str": _text_schema("The new text, for edit. The new key or path, for rename."),
        "query": _text_schema("The question or words to find, for search."),
    }
    return {
        "type": "object",
        "properties": properties,
        "required": ["command"],
        "additionalProperties": False,
    }


def _address_properties() -> dict[str, Any]:
    return {
        "scope": {
            "type": "string",
            "enum": list(SCOPES),
            "description": "The store: your own (agent, the default), or that of the current user "
            "or chat.",
        },
        "store": {
            "type": "string",
            "maxLength": MAX_ID_CHARACTERS,
            "description": "The id of another store, as listed by stores. It wins over scope.",
        },
        "key": {
            "type": "string",
            "maxLength": MAX_KEY_CHARACTERS,
            "description": "The key of the entry, like `todo` or `people/ann`.",
        },
        "path": {
            "type": "string",
            "pattern": "^/memories(/.*)?$",
            "maxLength": 256,
            "description": "Deprecated: use scope or store, and key. "
            "/memories/KEY or /memories/shared/STORE/KEY, with %2F for a slash in STORE.",
        },
    }


def _text_schema(description: str) -> dict[str, str]:
    return {"type": "string", "description": description}
