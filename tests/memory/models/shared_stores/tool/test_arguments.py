"""The arguments of the memory tool: three generations, the path grammar, and every error text."""

from typing import Any

import pytest

from memrelay.memory.engine.identity import Identity
from memrelay.memory.models.shared_stores.tool.arguments import (
    ToolError,
    is_read,
    name_type,
    parse_call,
)

A1 = Identity(agent="a1", user="user:ann", chat="chat:p/talk")
UNKNOWN = (
    "Unknown command: {}. Use view, create, edit, delete, rename, search, share, unshare, or "
    "stores."
)
BAD_PATH = "Invalid path: {}. Use /memories/{{key}} or /memories/shared/{{store}}/{{key}}."


@pytest.mark.parametrize(
    ("path", "store", "key", "prefix", "short_key"),
    [
        ("/memories", "a1", "", "", ""),
        ("/memories/", "a1", "", "", ""),
        ("/memories/a", "a1", "a", "", ""),
        ("/memories/a/b", "a1", "a/b", "", ""),
        ("/memories/a/b/", "a1", "", "a/b/", ""),
        ("/memories/a.md", "a1", "a.md", "", "a"),
        ("/memories/a.md.md", "a1", "a.md.md", "", "a.md"),
        ("/memories/.md", "a1", ".md", "", ""),
        ("/memories/shared", "a1", "shared", "", ""),
        ("/memories/shared/S", "S", "", "", ""),
        ("/memories/shared/S/", "S", "", "", ""),
        ("/memories/shared/S/x/y", "S", "x/y", "", ""),
        ("/memories/shared/S/x/y.md", "S", "x/y.md", "", "x/y"),
        ("/memories/shared/S/x/", "S", "", "x/", ""),
        ("notes", "a1", "notes", "", ""),
        ("notes.md", "a1", "notes.md", "", "notes"),
    ],
)
def test_a_path_names_an_entry_or_a_folder(
    path: str, store: str, key: str, prefix: str, short_key: str
) -> None:
    found = parse_call({"command": "view", "path": path}, A1).address

    assert (found.store, found.key, found.prefix, found.short_key, found.path) == (
        store,
        key,
        prefix,
        short_key,
        path,
    )
    assert not found.lists_stores


def test_a_path_lists_the_stores() -> None:
    assert parse_call({"command": "view", "path": "/memories/shared/"}, A1).address.lists_stores


@pytest.mark.parametrize(
    "path",
    ["/memoriesX", "/memories/shared//k", "/memories/../etc", "/memories/shared/..", "/etc", ".."],
)
def test_an_invalid_path_is_refused(path: str) -> None:
    assert fault({"command": "view", "path": path}) == BAD_PATH.format(path)


@pytest.mark.parametrize(
    ("given", "store", "key", "path"),
    [
        ({"key": "a.md"}, "a1", "a.md", "/memories/a.md"),
        ({"key": ".."}, "a1", "..", "/memories/.."),
        ({"scope": "agent", "key": "k"}, "a1", "k", "/memories/k"),
        ({"scope": "user", "key": "k"}, "user:ann", "k", "/memories/shared/user:ann/k"),
        ({"scope": "chat", "key": "k"}, "chat:p/talk", "k", "/memories/shared/chat:p%2Ftalk/k"),
        ({"store": "S", "key": "k"}, "S", "k", "/memories/shared/S/k"),
        ({"store": "S", "scope": "user", "key": "k"}, "S", "k", "/memories/shared/S/k"),
        ({"path": "/memories/p", "store": "S", "key": "k"}, "a1", "p", "/memories/p"),
        ({"path": None, "store": None, "scope": None, "key": "k"}, "a1", "k", "/memories/k"),
    ],
)
def test_a_path_wins_over_a_store_and_a_store_over_a_scope(
    given: dict[str, Any], store: str, key: str, path: str
) -> None:
    found = parse_call({"command": "view"} | given, A1).address

    assert (found.store, found.key, found.short_key, found.path) == (store, key, "", path)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, UNKNOWN.replace("Unknown command: {}", "command is required")),
        ({"command": None}, UNKNOWN.replace("Unknown command: {}", "command is required")),
        ({"action": ""}, "action is required"),
        ({"command": "move"}, UNKNOWN.format("move")),
        ({"command": "view", "path": ""}, "path is required for view"),
        ({"command": "create", "path": ""}, "path is required for create"),
        ({"command": "create"}, "content is required for create"),
        ({"command": "create", "content": None}, "content is required for create"),
        ({"command": "create", "content": "x"}, "path must include a filename for create"),
        (
            {"command": "create", "content": "x", "path": "/memories/a/"},
            "path must include a filename for create",
        ),
        ({"command": "edit", "path": ""}, "path is required for edit"),
        ({"command": "edit", "old_str": "a", "new_str": "b"}, "path is required for edit"),
        ({"command": "edit", "key": "k"}, "old_str and new_str are required for edit"),
        (
            {"command": "edit", "key": "k", "old_str": "", "new_str": "b"},
            "old_str and new_str are required for edit",
        ),
        ({"command": "delete", "path": ""}, "path is required for delete"),
        ({"command": "delete"}, "path must include a filename for delete"),
        ({"command": "rename"}, "path and new_str (new path) are required for rename"),
        (
            {"command": "rename", "key": "k", "new_str": ""},
            "path and new_str (new path) are required for rename",
        ),
        (
            {"command": "rename", "key": "k", "new_str": "/memories/a/"},
            "path and new_str (new path) are required for rename",
        ),
        ({"command": "rename", "key": "k", "new_str": "/x"}, BAD_PATH.format("/x")),
        ({"command": "rename", "key": "k", "new_str": "k" * 201}, "Memory rename failed: 400"),
        (
            {"command": "share", "agent": "b", "path": "/memories/shared/"},
            "Memory share failed: 400",
        ),
        ({"command": "search"}, "query is required for search"),
        ({"command": "share"}, "agent is required for share"),
        ({"command": "unshare"}, "agent is required for unshare"),
        ({"command": "share", "agent": "b", "level": "all"}, "Memory share failed: 400"),
        ({"command": "view", "key": "k" * 201}, "Memory get failed: 400"),
        ({"command": "view", "store": "s" * 65}, "Memory list failed: 400"),
        ({"command": "create", "key": "k" * 201, "content": ""}, "Memory create failed: 400"),
        ({"command": "view", "key": 5}, "key must be text, not number"),
        ({"command": "view", "scope": "all"}, "Unknown scope: all. Use agent, user, or chat."),
        ({"action": "move"}, "Unknown action: move"),
        ({"action": "get"}, "key is required"),
        ({"action": "set"}, "key is required"),
        ({"action": "set", "key": "k"}, "value is required"),
        ({"action": "delete"}, "key is required"),
        ({"action": "search"}, "query is required"),
        ({"action": "share"}, "agent is required"),
        ({"action": "unshare"}, "agent is required"),
        ({"action": "set", "key": "k", "value": 1, "ttl": -1}, "Memory set failed: 400"),
        ({"action": "share", "agent": "b", "level": "all"}, "Memory share failed: 400"),
    ],
)
def test_a_call_without_a_needed_argument_is_refused(given: dict[str, Any], text: str) -> None:
    assert fault(given) == text


@pytest.mark.parametrize("scope", ["user", "chat"])
def test_a_scope_without_its_id_is_never_the_agents_store(scope: str) -> None:
    text = f'scope "{scope}" needs a {scope}Id in this conversation'

    assert fault({"command": "view", "scope": scope}, Identity(agent="a1")) == text


@pytest.mark.parametrize(
    ("given", "store", "key", "short_key"),
    [
        ({"path": "/memories/shared/S/a", "new_str": "b.md"}, "S", "b.md", "b"),
        ({"path": "/memories/shared/S/a", "new_str": "/memories/b"}, "a1", "b", ""),
        ({"store": "S", "key": "a", "new_str": "b.md"}, "S", "b.md", ""),
        ({"key": "a", "new_str": "/memories/shared/S/b"}, "S", "b", ""),
    ],
)
def test_a_bare_new_name_stays_in_its_store(
    given: dict[str, Any], store: str, key: str, short_key: str
) -> None:
    found = parse_call({"command": "rename"} | given, A1).new_address

    assert (found.store, found.key, found.short_key) == (store, key, short_key)


def test_sharing_can_be_switched_off() -> None:
    share = {"command": "share", "agent": "b"}

    assert parse_call(share, A1).level == "read"
    assert fault(share, sharing=False) == (
        "Unknown command: share. Use view, create, edit, delete, rename, search, or stores."
    )
    assert fault({"action": "share", "agent": "b"}, sharing=False) == "Unknown action: share"


def test_arguments_of_the_first_generation_name_a_store_and_any_key() -> None:
    given = {"action": "set", "store": "self", "key": "a.md", "value": None, "ttl": 5}
    call = parse_call(given, A1)

    assert call.is_action and call.value is None and call.ttl_s == 5.0
    assert (call.address.store, call.address.key, call.address.short_key) == ("a1", "a.md", "")
    listing = parse_call({"action": "list", "store": "S", "prefix": "a/"}, A1).address
    assert (listing.store, listing.key, listing.prefix) == ("S", "", "a/")


@pytest.mark.parametrize(
    ("given", "dialect", "expected"),
    [
        ({"command": "view"}, "robutler", True),
        ({"command": "search"}, "robutler", True),
        ({"command": "stores"}, "robutler", True),
        ({"command": "create"}, "robutler", False),
        ({"command": "share"}, "robutler", False),
        ({"command": "insert"}, "robutler", True),
        ({"action": "get"}, "robutler", True),
        ({"action": "set"}, "robutler", False),
        ({"action": "delete"}, "robutler", False),
        ({}, "robutler", True),
        ({"command": "view"}, "anthropic", True),
        ({"command": "insert"}, "anthropic", False),
        ({"command": "edit"}, "anthropic", True),
    ],
)
def test_a_call_that_changes_nothing_is_a_read(
    given: dict[str, Any], dialect: str, expected: bool
) -> None:
    assert is_read(given, dialect) is expected


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (None, "null"),
        (True, "boolean"),
        (1, "number"),
        (0.5, "number"),
        ([], "object"),
        ("", "string"),
    ],
)
def test_a_type_has_the_name_of_javascript(value: Any, name: str) -> None:
    assert name_type(value) == name


def fault(given: dict[str, Any], identity: Identity = A1, *, sharing: bool = True) -> str:
    with pytest.raises(ToolError) as caught:
        parse_call(given, identity, sharing=sharing)
    return str(caught.value)
