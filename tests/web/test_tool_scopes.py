"""The memory tool with keys of few scopes: each command needs the scope of its operation."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.support.http import Answer, ask
from tests.support.keys import await_closed, make_key
from tests.support.robutler import TOOL, Agent
from tests.support.web_system import WebSystem

SCOPES = ("search", "read", "write", "delete")


class Keys(NamedTuple):
    """A server with one pipeline, and the headers of a key per scope and with all scopes."""

    web_system: WebSystem
    uid: str
    headers: dict[str, dict[str, str]]

    def call(self, held: str, path: str, arguments: dict[str, Any]) -> Answer:
        """Send a tool call with one of the keys."""
        return ask(self.web_system.url, "POST", f"{TOOL}?{path}", arguments, self.headers[held])


@pytest.fixture(scope="module")
def keys() -> Iterator[Keys]:
    with WebSystem() as web_system:
        uid, root = web_system.deploy(), web_system.system.root
        held = {scope: make_key(root, scope).headers for scope in SCOPES}
        held["all"] = make_key(root).headers
        await_closed(web_system)
        yield Keys(web_system, uid, held)


COMMANDS: list[tuple[str, str, dict[str, Any]]] = [
    ("read", "robutler", {"command": "view", "path": "/memories/k"}),
    ("read", "robutler", {"command": "view", "path": "/memories/"}),
    ("read", "robutler", {"command": "stores"}),
    ("read", "robutler", {"action": "get", "key": "k"}),
    ("read", "robutler", {"action": "list"}),
    ("read", "robutler", {"action": "stores"}),
    ("read", "anthropic", {"command": "view", "path": "/memories"}),
    ("search", "robutler", {"command": "search", "query": "tea"}),
    ("search", "robutler", {"action": "search", "query": "tea"}),
    ("write", "robutler", {"command": "create", "key": "n", "content": "x"}),
    ("write", "robutler", {"command": "edit", "key": "n", "old_str": "x", "new_str": "y"}),
    ("write", "robutler", {"command": "rename", "key": "n", "new_str": "m"}),
    ("write", "robutler", {"command": "share", "agent": "other"}),
    ("write", "robutler", {"action": "set", "key": "n", "value": 1}),
    ("write", "anthropic", {"command": "insert", "path": "/memories/n", "insert_line": 0}),
    ("delete", "robutler", {"command": "delete", "key": "n"}),
    ("delete", "robutler", {"action": "delete", "key": "n"}),
    ("delete", "anthropic", {"command": "delete", "path": "/memories/n"}),
]


@pytest.mark.parametrize(("scope", "dialect", "arguments"), COMMANDS, ids=str)
def test_a_command_needs_the_scope_of_its_operation(
    keys: Keys, scope: str, dialect: str, arguments: dict[str, Any]
) -> None:
    answers = {one: keys.call(one, f"agentId=a1&dialect={dialect}", arguments) for one in SCOPES}

    assert [one for one in SCOPES if answers[one].status == 200] == [scope], answers
    refused = next(answers[one] for one in SCOPES if one != scope)
    assert (refused.status, refused.json["error"]) == (403, "Denied")
    assert f'the scope "{scope}"' in refused.json["detail"]


def test_the_tool_of_v1_needs_the_same_scopes(keys: Keys) -> None:
    base = f"/v1/pipelines/{keys.uid}/memory_tool"
    read = {"agent": "a1", "arguments": {"command": "view", "key": "k"}}
    delete = {"agent": "a1", "arguments": {"command": "delete", "key": "k"}}

    def statuses(path: str, body: dict[str, Any]) -> list[int]:
        url, headers = keys.web_system.url, keys.headers
        return [ask(url, "POST", base + path, body, headers[one]).status for one in SCOPES]

    assert statuses("/read", read) == [403, 200, 403, 403]
    assert statuses("/write", delete) == [403, 403, 403, 200]


def test_an_edit_without_read_shows_no_stored_text(keys: Keys) -> None:
    Agent(keys.web_system.url, "a2", keys.headers["all"]).put("k", "green tea at five")
    edit = {"command": "edit", "path": "/memories/k", "old_str": "tea", "new_str": "milk"}
    replace = {"command": "str_replace", "path": "/memories/k", "old_str": "five", "new_str": "6"}

    files = "agentId=a2&dialect=anthropic"

    edited = keys.call("write", "agentId=a2", edit).json
    replaced = keys.call("write", files, replace).json
    shown = keys.call("all", files, replace | {"old_str": "6", "new_str": "7"}).json

    assert edited == {"value": "Edited /memories/k", "is_error": False}
    assert replaced == {"value": "The memory file has been edited.", "is_error": False}
    assert "green milk at 7" in shown["value"]
