"""Every tool with every kind of key, over HTTP."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson
import pytest

from memrelay.memory.control.keys import SCOPES
from tests.support.http import Answer, ask
from tests.support.keys import ApiKey, await_closed, make_key, revoke
from tests.support.mcp_tools import TOOLS
from tests.support.web_system import WebSystem

MAX_LIST_TOKENS, BYTES_PER_TOKEN = 2_500, 3
UNKNOWN = "01a21446-0000-7000-8000-000000000000"
# Each kind of call with the scope that it needs.
CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("memory_remember", {"text": "Ada likes tea"}, "write"),
    ("memory_recall", {"query": "tea"}, "search"),
    ("memory_search", {"query": "tea"}, "search"),
    ("memory_read", {}, "read"),
    ("memory_read", {"guid": UNKNOWN}, "read"),
    ("memory_write", {"content": "tea"}, "write"),
    ("memory_write", {"content": "tea", "append_to": UNKNOWN}, "append"),
    ("memory_change", {"guid": UNKNOWN, "content": "tea"}, "write"),
    ("memory_change", {"guid": UNKNOWN, "restore": 0}, "write"),
    ("memory_forget", {"guid": UNKNOWN}, "delete"),
    ("memory_forget", {"guid": "ENTRY"}, "delete"),
    ("memory_history", {"guid": UNKNOWN}, "read"),
]
LACKS = {f"lacks {scope}": set(SCOPES) - {scope} for scope in SCOPES}
KINDS = {scope: {scope} for scope in SCOPES} | LACKS | {"all": set(SCOPES)}


class ToolServer(NamedTuple):
    """A server with two pipelines, and one key of each kind for the first."""

    web_system: WebSystem
    uid: str
    keys: dict[str, ApiKey]

    def post(
        self, key: str, method: str, params: dict[str, Any] | None = None, uid: str = ""
    ) -> Answer:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2025-11-25",
        } | self.keys[key].headers
        return ask(self.web_system.url, "POST", f"/mcp/{uid or self.uid}", body, headers)

    def list(self, key: str) -> list[dict[str, Any]]:
        """Return the listed tools."""
        tools: list[dict[str, Any]] = _result(self.post(key, "tools/list"))["tools"]
        return tools

    def call(self, key: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a tool call."""
        return _result(self.post(key, "tools/call", {"name": name, "arguments": arguments}))


def _result(answer: Answer) -> Any:
    assert answer.status == 200, answer
    text = answer.body.decode()
    if answer.headers["content-type"].startswith("text/event-stream"):
        text = next(line[6:] for line in text.splitlines() if line.startswith("data: {"))
    return orjson.loads(text)["result"]


@pytest.fixture(scope="module")
def server() -> Iterator[ToolServer]:
    with WebSystem() as web_system:
        uid, other = web_system.deploy(), web_system.deploy()
        root = web_system.system.root
        keys = {
            kind: make_key(root, *sorted(scopes), pipelines=(uid,))
            for kind, scopes in KINDS.items()
        }
        keys |= {
            "other": make_key(root, pipelines=(other,)),
            "expired": make_key(root, pipelines=(uid,), lasts_ms=-1),
            "revoked": make_key(root, pipelines=(uid,)),
            "wrong": ApiKey("", f"mr_{'0' * 12}_{'f' * 64}"),
        }
        revoke(root, keys["revoked"])
        await_closed(web_system)
        yield ToolServer(web_system, uid, keys)


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_lists_the_tools_and_makes_the_calls_of_its_scopes(
    server: ToolServer, kind: str
) -> None:
    scopes = KINDS[kind]

    assert {one["name"] for one in server.list(kind)} == {
        name for name, _, needed in CALLS if needed in scopes
    }
    for name, given, needed in CALLS:
        entry = f"me_{server.uid}_{'0' * 32}"
        arguments = {field: entry if one == "ENTRY" else one for field, one in given.items()}
        answer = server.call(kind, name, arguments)
        text = answer["content"][0]["text"]

        is_denied = answer.get("isError", False) and "scope" in text
        assert is_denied is (needed not in scopes), (name, arguments, text)
        if is_denied:
            assert needed in text


@pytest.mark.parametrize("kind", ["expired", "revoked", "wrong"])
def test_an_invalid_key_is_rejected(server: ToolServer, kind: str) -> None:
    answer = server.post(kind, "tools/list")

    assert answer.status == 401 and answer.headers["www-authenticate"].startswith("Bearer")


def test_a_key_of_another_pipeline_sees_as_little_as_of_an_unknown_one(server: ToolServer) -> None:
    known, unknown = server.post("other", "tools/list"), server.post("other", "tools/list", {}, "x")

    assert known.status == unknown.status == 404


def test_a_key_without_read_sees_no_stored_text_in_an_answer(server: ToolServer) -> None:
    guid = server.call("all", "memory_write", {"content": "a secret"})["structuredContent"]["guid"]
    server.call("all", "memory_remember", {"text": "Bob keeps a secret", "memory": "bob"})

    changed = server.call("write", "memory_change", {"guid": guid, "kind": "note"})
    repeated = server.call(
        "write", "memory_remember", {"text": "bob keeps a secret", "memory": "bob"}
    )

    assert changed["structuredContent"].keys() == {"guid", "version"}
    assert repeated["structuredContent"].keys() == {"id", "memory_id", "action", "version"}


def test_a_repeated_idempotency_key_returns_the_first_answer(server: ToolServer) -> None:
    given = {"content": "once", "idempotency_key": "k-1"}

    first, second = (server.call("all", "memory_write", given) for _ in range(2))
    reused = server.call("all", "memory_write", given | {"content": "other"})

    assert first["structuredContent"] == second["structuredContent"]
    assert reused["isError"] and "k-1" in reused["content"][0]["text"]


def test_a_store_of_the_pipeline_can_be_read(server: ToolServer) -> None:
    server.call("all", "memory_remember", {"text": "Ada likes coffee", "memory": "store"})

    listed = server.call("all", "memory_read", {"kind": "entry", "store": "memories"})
    refused = server.call("all", "memory_read", {"store": "nowhere"})

    texts = [one["content"] for one in listed["structuredContent"]["items"]]
    assert "Ada likes coffee" in texts
    assert refused["isError"] and "nowhere" in refused["content"][0]["text"]


def test_the_whole_list_of_tools_fits_its_limit(server: ToolServer) -> None:
    listed = server.list("all")

    assert [one["name"] for one in listed] == list(TOOLS)
    assert len(orjson.dumps(listed)) <= MAX_LIST_TOKENS * BYTES_PER_TOKEN


def test_every_known_tool_has_a_call() -> None:
    assert {name for name, _, _ in CALLS} == set(TOOLS)
