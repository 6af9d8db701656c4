"""MCP over HTTP: routes, keys, the argument `pipeline`, and the errors of calls."""

import json
from typing import Any

import pytest

from memrelay.memory.control.keys import ALL, SCOPES
from memrelay.memory.operations import all_operations
from memrelay.web.api.operation_routes import scopes_of
from memrelay.web.mcp.tool_handlers import TOOLSETS
from memrelay.web.mcp.toolsets import INSTRUCTIONS
from tests.support.http import Answer, ask
from tests.support.keys import ApiKey, make_key, revoke
from tests.support.mcp_calls import McpCalls, McpError, make_request
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem

HANDSHAKE_HEADERS = {
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
}
INVALID_PARAMS = -32602
UNKNOWN_GUID = "01a2143f-d80d-7000-8001-5cc553e213ab"


def call(
    web_system: WebSystem, uid: str, tool: str, key: ApiKey | None = None, **arguments: Any
) -> Any:
    calls = McpCalls(web_system.url, f"/mcp/{uid}", key)
    return calls("tools/call", name=tool, arguments=arguments)


def call_everywhere(web_system: WebSystem, tool: str, key: ApiKey, **arguments: Any) -> Any:
    calls = McpCalls(web_system.url, "/mcp", key)
    return calls("tools/call", name=tool, arguments=arguments)


def make_known_key(
    web_system: WebSystem, *scopes: str, pipelines: tuple[str, ...] = (ALL,)
) -> ApiKey:
    """Create a key, and wait until the web server accepts it."""
    key = make_key(web_system.system.root, *scopes, pipelines=pipelines)
    calls = McpCalls(web_system.url, "/mcp", key)
    wait_for(lambda: calls.ask("ping").status != 401, "the key is known")
    return key


def text_of(result: Any) -> str:
    """Return the text of a failed call."""
    assert result["isError"], result
    return "".join(block["text"] for block in result["content"])


def post_handshake(
    web_system: WebSystem, uid: str, method: str, params: Any, **headers: str
) -> Answer:
    """Send a request of revision 2025-11-25."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    named = {"MCP-Protocol-Version": "2025-11-25"} | HANDSHAKE_HEADERS | headers
    return web_system.post(f"/mcp/{uid}", body, **named)


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_a_server_without_sessions_offers_only_post(web_system: WebSystem, method: str) -> None:
    answer = ask(web_system.url, method, f"/mcp/{web_system.deploy()}", b"", HANDSHAKE_HEADERS)

    assert (answer.status, answer.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize("path", ["/mcp", "/mcp/{uid}", "/mcp/{uid}/graph", "/mcp/{uid}/files"])
def test_a_request_without_a_key_learns_how_to_authenticate(keyed: WebSystem, path: str) -> None:
    body, headers = make_request("tools/list", {}, None)

    answer = ask(keyed.url, "POST", path.format(uid="x"), body, headers)

    assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")


@pytest.mark.parametrize(
    "headers, status",
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Host": "evil.example"}, 421),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Accept": "text/html"}, 406),
    ],
)
def test_the_guard_of_every_route_protects_mcp(
    web_system: WebSystem, headers: dict[str, str], status: int
) -> None:
    answer = post_handshake(web_system, web_system.deploy(), "tools/list", {}, **headers)

    assert answer.status == status


def test_a_page_must_send_json(web_system: WebSystem) -> None:
    origin = {"Origin": web_system.url, "Content-Type": "text/plain"}

    answer = post_handshake(web_system, web_system.deploy(), "tools/list", {}, **origin)

    assert answer.status == 415


def test_bodies_have_the_limits_of_every_route(web_system: WebSystem) -> None:
    uid = web_system.deploy()

    long = post_handshake(web_system, uid, "tools/list", {"_meta": {"x": "x" * (1 << 20)}})
    wide = post_handshake(
        web_system, uid, "tools/list", {"_meta": {str(n): n for n in range(10_001)}}
    )

    assert (long.status, wide.status) == (413, 422)
    assert "web.max_json_keys" in wide.problem[1]


def test_both_revisions_have_equal_results(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    guid = call(web_system, uid, "memory_write", content="tea")["structuredContent"]["guid"]
    params = {"name": "memory_read", "arguments": {"guid": guid}}

    newest = McpCalls(web_system.url, f"/mcp/{uid}")("tools/call", **params)
    handshake = post_handshake(web_system, uid, "tools/call", params).json["result"]

    assert newest["structuredContent"] == handshake["structuredContent"]
    assert newest["content"] == handshake["content"]
    assert json.loads(newest["content"][0]["text"]) == newest["structuredContent"]


def test_an_unknown_tool_is_a_protocol_error(web_system: WebSystem) -> None:
    uid = web_system.deploy()

    with pytest.raises(McpError) as caught:
        call(web_system, uid, "memory_sing")
    handshake = post_handshake(web_system, uid, "tools/call", {"name": "memory_sing"})

    assert caught.value.code == handshake.json["error"]["code"] == INVALID_PARAMS
    assert "memory_recall" in caught.value.text


@pytest.mark.parametrize("params", [{}, {"name": 7}, {"name": "memory_read", "arguments": [1]}])
def test_malformed_params_are_a_protocol_error(web_system: WebSystem, params: Any) -> None:
    answer = post_handshake(web_system, web_system.deploy(), "tools/call", params)

    assert answer.json["error"]["code"] == INVALID_PARAMS


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**300])
def test_an_answer_repeats_an_id_of_any_size(web_system: WebSystem, number: int) -> None:
    params = {"name": "memory_write", "arguments": {"content": "tea"}}
    body = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}

    answer = ask(
        web_system.url,
        "POST",
        f"/mcp/{web_system.deploy()}",
        json.dumps(body).encode(),
        {"MCP-Protocol-Version": "2025-11-25"} | HANDSHAKE_HEADERS,
    )

    assert answer.status == 200
    assert json.loads(answer.body)["id"] == number


def test_every_fault_of_the_arguments_is_named(web_system: WebSystem) -> None:
    result = call(
        web_system, web_system.deploy(), "memory_search", limit="ten", tags=["a", 7], sing=True
    )

    text = text_of(result)
    assert "'query' is a required property" in text
    assert '/limit: must be a whole number, and "ten" is not; send it like "limit": 10' in text
    assert '/tags/1: must be a text, and 7 is not; send it like "text"' in text
    assert "/sing: is no argument of memory_search; remove it" in text


def test_an_operation_that_refuses_names_the_rule(web_system: WebSystem) -> None:
    result = call(web_system, web_system.deploy(), "memory_read", guid=UNKNOWN_GUID)

    assert UNKNOWN_GUID in text_of(result)
    assert "structuredContent" not in result


def test_a_call_without_an_owner_names_the_time_to_retry(web_system: WebSystem) -> None:
    result = call(web_system, web_system.deploy_unserved(), "memory_write", content="tea")

    assert "no worker serves" in text_of(result)
    assert text_of(result).endswith("Retry in 1 s")


def test_an_idempotency_key_returns_the_first_answer(web_system: WebSystem) -> None:
    uid = web_system.deploy()

    first, again = [
        call(web_system, uid, "memory_write", content="tea", idempotency_key="one")
        for _ in range(2)
    ]
    other = call(web_system, uid, "memory_write", content="milk", idempotency_key="one")

    assert first["structuredContent"] == again["structuredContent"]
    assert "idempotency_key 'one'" in text_of(other)
    assert web_system.system.contents(uid) == ["tea"]


@pytest.mark.parametrize("scope", SCOPES)
def test_a_key_sees_the_tools_that_it_may_call(keyed: WebSystem, scope: str) -> None:
    uid, key = keyed.deploy(), make_known_key(keyed, scope)

    for toolset, path in (("memory", ""), ("graph", "/graph"), ("files", "/files")):
        result = McpCalls(keyed.url, f"/mcp/{uid}{path}", key)("tools/list")

        expected = [
            tool.name
            for tool in TOOLSETS[toolset]
            if any(scope in scopes_of(all_operations()[name]) for name in tool.operations)
        ]
        assert [tool["name"] for tool in result["tools"]] == expected
        assert result["cacheScope"] == "private"


def test_a_call_beyond_the_key_names_the_scope(keyed: WebSystem) -> None:
    uid, key = keyed.deploy(), make_known_key(keyed, "search")

    assert "scope write" in text_of(call(keyed, uid, "memory_write", key, content="tea"))


def test_a_key_that_may_not_read_gets_only_ids(keyed: WebSystem) -> None:
    uid, key = keyed.deploy(), make_known_key(keyed, "write")

    result = call(keyed, uid, "memory_write", key, content="a secret")

    assert "guid" in result["structuredContent"]
    assert "a secret" not in json.dumps(result)


def test_a_revoked_key_is_refused(keyed: WebSystem) -> None:
    uid, key = keyed.deploy(), make_known_key(keyed, "read")
    assert "items" in call(keyed, uid, "memory_read", key)["structuredContent"]

    revoke(keyed.system.root, key)

    calls = McpCalls(keyed.url, f"/mcp/{uid}", key)
    wait_for(lambda: calls.ask("tools/list").status == 401, "the key is refused")


def test_a_key_of_one_pipeline_need_not_name_it(keyed: WebSystem) -> None:
    uid = keyed.deploy()
    key = make_known_key(keyed, pipelines=(uid,))
    call_everywhere(keyed, "memory_write", key, content="tea")

    tools = McpCalls(keyed.url, "/mcp", key)("tools/list")["tools"]
    found = call_everywhere(keyed, "memory_read", key, pipeline=uid)["structuredContent"]

    schema = next(tool["inputSchema"] for tool in tools if tool["name"] == "memory_search")
    assert "pipeline" in schema["properties"]
    assert schema["required"] == ["query"]
    assert [item["content"] for item in found["items"]] == ["tea"]


def test_a_key_of_several_pipelines_must_name_one(keyed: WebSystem) -> None:
    ours = [keyed.deploy(pipeline_name=name) for name in ("Diary of Ada", "Recipes", "Recipes")]
    other = keyed.deploy(pipeline_name="Another's diary")
    key = make_known_key(keyed, pipelines=tuple(ours))

    calls = McpCalls(keyed.url, "/mcp", key)

    def is_required() -> bool:
        tools = calls("tools/list")["tools"]
        return all("pipeline" in tool["inputSchema"].get("required", ()) for tool in tools)

    # The server reads the active pipelines once a second.
    wait_for(is_required, "the tools require the argument pipeline")
    unnamed = text_of(call_everywhere(keyed, "memory_read", key))
    foreign = text_of(call_everywhere(keyed, "memory_read", key, pipeline=other))
    missing = text_of(call_everywhere(keyed, "memory_read", key, pipeline="0" * len(other)))

    named = f"{ours[0]} (Diary of Ada)"
    listed = calls("tools/list")["tools"][0]["inputSchema"]["properties"]["pipeline"]
    assert named in unnamed and named in missing and named in listed["description"]
    assert all(uid in unnamed for uid in ours)
    assert other not in unnamed + listed["description"]
    assert foreign.replace(other, "") == missing.replace("0" * len(other), "")
    written = call_everywhere(keyed, "memory_write", key, pipeline="Diary of Ada", content="tea")
    assert not written["isError"] and keyed.system.contents(ours[0]) == ["tea"]
    twice = text_of(call_everywhere(keyed, "memory_read", key, pipeline="Recipes"))
    assert twice.startswith("2 pipelines are 'Recipes'; set `pipeline` to one of these uids: ")


def test_the_tools_of_one_pipeline_take_no_argument_pipeline(web_system: WebSystem) -> None:
    uid = web_system.deploy()

    tools = McpCalls(web_system.url, f"/mcp/{uid}")("tools/list")["tools"]

    assert not [tool for tool in tools if "pipeline" in tool["inputSchema"]["properties"]]
    assert "the URL names the pipeline: remove it" in text_of(
        call(web_system, uid, "memory_read", pipeline=uid)
    )


@pytest.mark.parametrize(
    "method, path, hint",
    [
        ("GET", "/sse", "there is no SSE transport; select the transport `streamable HTTP`"),
        ("POST", "/mcp/{uid}/messages", "the path of MCP is /mcp/UID"),
        ("GET", "/.well-known/oauth-protected-resource/mcp/{uid}", "Authorization: Bearer KEY"),
        ("GET", "/.well-known/oauth-authorization-server", "memrelay keys create"),
        ("GET", "/.well-known/openid-configuration", "this server has no OAuth"),
        ("POST", "/register", "this server has no OAuth"),
        ("GET", "/authorize?client_id=x", "this server has no OAuth"),
        ("POST", "/p/{uid}/mcp", "there is no /p/UID/mcp; the path of MCP is /mcp/UID"),
    ],
)
def test_a_path_that_clients_try_says_what_to_do(
    keyed: WebSystem, method: str, path: str, hint: str
) -> None:
    answer = ask(keyed.url, method, path.format(uid="x"), b"", HANDSHAKE_HEADERS)

    assert answer.status == 404
    assert hint in answer.json["detail"]
    if "OAuth" in hint:
        assert answer.json["error_description"] == answer.json["detail"]


def test_a_browser_and_an_sse_client_learn_what_to_do(web_system: WebSystem) -> None:
    page = web_system.get("/authorize", Accept="text/html")
    stream = web_system.get(f"/mcp/{web_system.deploy()}", Accept="text/event-stream")

    assert page.status == 404 and "memrelay keys create" in page.body.decode()
    assert stream.status == 405 and "not `sse`" in stream.json["detail"]


def test_instructions_are_short_and_declare_results_as_data(web_system: WebSystem) -> None:
    for toolset, path in (("memory", ""), ("graph", "/graph"), ("files", "/files")):
        calls = McpCalls(web_system.url, f"/mcp/{web_system.deploy()}{path}")
        text = calls("server/discover")["instructions"]

        assert text == INSTRUCTIONS[toolset]
        assert len(text) <= 1_000
        assert "data" in text


def test_facts_are_listed_restored_and_have_a_history_over_http(web_system: WebSystem) -> None:
    calls = McpCalls(web_system.url, f"/mcp/{web_system.deploy()}")

    def use(name: str, **arguments: object) -> Any:
        result = calls("tools/call", name=name, arguments=arguments)
        assert not result["isError"], result
        return result["structuredContent"]

    use("memory_write", content="a note about tea")
    fact = use("memory_remember", text="Ada likes tea")["id"]
    (listed,) = use("memory_read", memory="*")["items"]
    use("memory_forget", guid=fact)
    (deleted,) = use("memory_read", memory="notes", deleted=True)["items"]
    restored = use("memory_change", guid=fact, restore=0)
    states = use("memory_history", guid=fact)["items"]

    assert listed["id"] == deleted["id"] == restored["id"] == fact
    assert [one.get("change") for one in states] == [None, "restore", "delete"]
    assert use("memory_read", guid=fact)["content"] == "Ada likes tea"
    assert [one["content"] for one in use("memory_read")["items"]] == ["a note about tea"]
    (hit,) = use("memory_search", query="tea")["items"]
    assert hit["record"]["content"] == "a note about tea"
