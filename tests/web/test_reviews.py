"""Writes that wait for review, over HTTP: the answer of each API, who may decide, and that a
decision has one effect.
"""

import asyncio
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest

from memrelay import connect, connect_sync
from memrelay.integrations.langgraph import MemrelayStore
from memrelay.memory.stopped_writes import Dropped, ReviewPending
from tests.support.bundles import STORE, make_agent
from tests.support.contract import read_document
from tests.support.http import Answer, ask
from tests.support.keys import await_closed, make_key
from tests.support.mcp_calls import McpCalls
from tests.support.robutler import B
from tests.support.web_system import WebSystem

POLICY = "strangers wait"
CANARY = "plughxyzzy"
WORDS = "Ada drinks green tea"
# Streams that stay open are read for this time, seconds.
READ_S = 0.5


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem(WEB__RATE="0") as web_system:
        yield web_system
        assert not [event for event in web_system.web.events if event["event"] == "request_failed"]


@pytest.fixture
def uid(web_system: WebSystem) -> str:
    """A new pipeline."""
    return web_system.deploy()


def call(web_system: WebSystem, uid: str, path: str, body: Any, **headers: str) -> Answer:
    return web_system.post(f"/v1/pipelines/{uid}/{path}", body, **headers)


def hold_all(
    web_system: WebSystem, uid: str, action: str = "review", store: str = "memories", **key: str
) -> None:
    """Let a policy stop every write to a store of the pipeline."""
    policy = {"policy": {"name": POLICY, "match": {}, "action": action}}
    answer = call(web_system, uid, f"policies/set?store={store}", policy, **key)
    assert answer.status == 204, answer


def put_item(web_system: WebSystem, uid: str, value: str) -> Answer:
    """Write an item by Robutler's path."""
    return ask(web_system.url, "PUT", f"/p/{uid}{B}/k", {"agentId": "a1", "value": value})


def read_guid(answer: Answer) -> str:
    """Return the guid of an answer to a write that waits."""
    assert answer.status == 202, answer
    assert answer.json.keys() == {"guid", "review"} and answer.json["review"] == "pending"
    return str(answer.json["guid"])


def list_waiting(web_system: WebSystem, uid: str, store: str = "memories") -> list[str]:
    items = web_system.get(f"/v1/pipelines/{uid}/reviews?store={store}").json["items"]
    return [one["guid"] for one in items]


def test_a_write_that_waits_answers_202_in_every_api(web_system: WebSystem, uid: str) -> None:
    memory = call(web_system, uid, "memories", {"name": "facts"}).json["id"]
    for store in ("memories", "stores", "langgraph"):
        hold_all(web_system, uid, store=store)
    item = {"scope": "users", "key": "k", "data": {"value": {"a": "tea"}}, "content": "tea"}

    held = [
        call(web_system, uid, "records", {"content": "tea"}),
        call(web_system, uid, "records/append", {"content": "tea", "kind": "log"}),
        web_system.post(f"/api/v1/memories/{memory}/entries", {"content": "Ada likes tea"}),
        call(web_system, uid, "facts/k/set", {"value": "tea"}),
    ]
    internal = put_item(web_system, uid, "tea")
    graph = ask(web_system.url, "PUT", f"/v1/pipelines/{uid}/records", {"items": [item]})

    assert list_waiting(web_system, uid) == [read_guid(one) for one in held]
    assert list_waiting(web_system, uid, "stores") == [read_guid(internal)]
    assert list_waiting(web_system, uid, "langgraph") == [read_guid(graph)]
    assert call(web_system, uid, "records/search", {"query": "tea"}).json["items"] == []
    assert web_system.get(f"/p/{uid}{B}/k?agentId=a1").status == 404


def test_a_dropped_write_answers_202_with_the_policy(web_system: WebSystem, uid: str) -> None:
    hold_all(web_system, uid, "drop")
    answer = call(web_system, uid, "records", {"content": "tea"})
    assert (answer.status, answer.json) == (202, {"dropped": POLICY})
    with connect_sync(web_system.url) as client:
        assert client.records.create(uid, "tea") == Dropped(POLICY)
    assert list_waiting(web_system, uid) == []


def test_the_python_clients_return_what_became_of_the_write(
    web_system: WebSystem, uid: str
) -> None:
    hold_all(web_system, uid)
    hold_all(web_system, uid, store="langgraph")
    with connect_sync(web_system.url) as client:
        pending = client.records.create(uid, "tea")
        assert isinstance(pending, ReviewPending)
        operated = client.operate("records.create", {"content": "milk"}, pipeline=uid)
        store = MemrelayStore(client, store=f"instances/{uid}/langgraph")
        store.put(("users", "ada"), "diet", {"food": "pizza"})
        assert store.get(("users", "ada"), "diet") is None
        (waiting,) = list_waiting(web_system, uid, "langgraph")
        client.reviews.approve(uid, guids=[waiting], store="langgraph")
        assert store.get(("users", "ada"), "diet").value == {"food": "pizza"}
    assert list_waiting(web_system, uid) == [pending.guid, operated["guid"]]

    async def create() -> Any:
        async with connect(web_system.url) as client:
            return await client.records.create(uid, "coffee")

    assert isinstance(asyncio.run(create()), ReviewPending)


def test_a_model_is_told_in_words_that_its_memory_waits(web_system: WebSystem, uid: str) -> None:
    call(web_system, uid, "memories", {"name": "notes"})
    hold_all(web_system, uid)
    tools = McpCalls(web_system.url, f"/mcp/{uid}")
    result = tools("tools/call", name="memory_remember", arguments={"text": "Ada likes tea"})
    (waiting,) = list_waiting(web_system, uid)
    text = result["content"][0]["text"]
    assert f"holds the write for review as {waiting}" in text and "do not write it again" in text


def test_64_approvals_at_once_have_one_effect(web_system: WebSystem, uid: str) -> None:
    hold_all(web_system, uid)
    guid = read_guid(call(web_system, uid, "records", {"content": "tea"}))

    def approve(_: int) -> Any:
        return call(web_system, uid, "reviews/approve", {"guids": [guid]}).json["items"][0]

    with ThreadPoolExecutor(64) as threads:
        answers = list(threads.map(approve, range(64)))

    assert {one["status"] for one in answers} == {"approved"}
    assert sorted(one["is_repeated"] for one in answers) == [False, *[True] * 63]
    records = web_system.get(f"/v1/pipelines/{uid}/records").json["items"]
    assert [(one["guid"], one["content"]) for one in records] == [(guid, "tea")]


def test_other_policies_hold_for_an_approved_write(web_system: WebSystem, uid: str) -> None:
    hold_all(web_system, uid)
    guids = [
        read_guid(call(web_system, uid, "records", {"content": content}))
        for content in ("tea", "coffee")
    ]
    refuse = {"name": "no tea", "match": {"find": {"pattern": "tea"}}, "action": "refuse"}
    call(web_system, uid, "policies/set?store=memories", {"policy": refuse})

    items = call(web_system, uid, "reviews/approve", {"guids": guids}).json["items"]

    assert [(one["status"], one["code"]) for one in items] == [
        ("conflict", "refused_by_policy"),
        ("approved", None),
    ]
    assert list_waiting(web_system, uid) == guids[:1]


def test_a_batch_that_another_policy_refuses_does_not_hold_up_others(
    web_system: WebSystem, uid: str
) -> None:
    hold_all(web_system, uid, store="langgraph")
    for text in ("bad", "good"):
        items = [
            {"scope": text, "key": key, "data": {"value": {"a": 1}}, "content": f"{text} {key}"}
            for key in ("one", "two")
        ]
        path = f"/v1/pipelines/{uid}/records"
        assert ask(web_system.url, "PUT", path, {"items": items}).status == 202
    refuse = {"name": "no", "match": {"find": {"pattern": "bad two"}}, "action": "refuse"}
    call(web_system, uid, "policies/set?store=langgraph", {"policy": refuse})

    rule = {"policy": POLICY}
    items = call(web_system, uid, "reviews/approve?store=langgraph", rule).json["items"]

    assert [(one["status"], one["code"]) for one in items] == [
        ("conflict", "refused_by_policy"),
        ("approved", None),
    ]
    assert web_system.system.contents(uid, "langgraph") == ["good one", "good two"]


@pytest.mark.slow
def test_a_writer_cannot_approve_count_or_detect_what_waits() -> None:
    with WebSystem(WEB__RATE="0") as web_system:
        uid, root = web_system.deploy(), web_system.system.root
        hold_all(web_system, uid)
        writing = ("search", "read", "write", "append", "delete", "publish")
        writer = make_key(root, *writing, name="Mallory")
        both = make_key(root, *writing, "review", name="Mallory")
        admin = make_key(root, "admin", "read", name="Root")
        reviewer = make_key(root, "review", name="Ada")
        await_closed(web_system)
        guid = read_guid(call(web_system, uid, "records", {"content": "tea"}, **writer.headers))

        for key in (writer, admin):
            for method, path in (
                ("GET", "reviews"),
                ("GET", f"reviews/{guid}"),
                ("POST", "reviews/approve"),
                ("POST", "reviews/reject"),
                ("POST", f"reviews/{guid}/edit"),
            ):
                path = f"/v1/pipelines/{uid}/{path}"
                answer = ask(web_system.url, method, path, {}, key.headers)
                assert answer.problem[0] == 403
        own = call(web_system, uid, "reviews/approve", {"guids": [guid]}, **both.headers)
        assert own.json["items"][0]["status"] == "denied"
        said = web_system.say(uid, make_text("/write milk"), query="?wait=20", **both.headers)
        assert '"review":"pending"' in said.texts[0].replace(" ", "")
        last = web_system.get(f"/v1/pipelines/{uid}/reviews", **reviewer.headers).json["items"][-1]
        assert last["origin"]["key"] == both.id and last["candidate"]["content"] == "milk"
        for key, status in ((both, "denied"), (reviewer, "approved")):
            given = {"guids": [last["guid"]]}
            done = call(web_system, uid, "reviews/approve", given, **key.headers)
            assert done.json["items"][0]["status"] == status
        unknown = "01a200a0-9980-7000-8018-9f7019b48c30"
        missing = [
            web_system.get(f"/v1/pipelines/{uid}/records/{one}", **writer.headers).problem
            for one in (guid, unknown)
        ]
        assert missing[0][1].replace(guid, unknown) == missing[1][1]
        listed = web_system.get(f"/v1/pipelines/{uid}/records", **writer.headers).json
        assert [one["content"] for one in listed["items"]] == ["milk"] and listed["total"] == 1

        done = call(web_system, uid, "reviews/approve", {"guids": [guid]}, **reviewer.headers)
        assert done.json["items"][0]["status"] == "approved"
        record = web_system.get(f"/v1/pipelines/{uid}/records/{guid}", **writer.headers).json
        assert (record["content"], record["source"]) == ("tea", "Mallory")


@pytest.mark.slow
def test_no_route_page_tool_or_block_shows_what_waits(web_system: WebSystem, uid: str) -> None:
    text = f"{WORDS} {CANARY}"
    memory = call(web_system, uid, "memories", {"name": "notes"}).json["id"]
    for store in ("memories", "stores", "langgraph"):
        hold_all(web_system, uid, store=store)
    guid = read_guid(call(web_system, uid, "records", {"content": text}))
    entry = {"memory_id": memory, "content": text}
    assert call(web_system, uid, "entries", entry).status == 202
    assert put_item(web_system, uid, text).status == 202
    item = {"scope": "s", "key": "k", "data": {"value": {"a": text}}, "content": text}
    graph = ask(web_system.url, "PUT", f"/v1/pipelines/{uid}/records", {"items": [item]})
    assert graph.status == 202

    paths = list_reads(uid, {"memory_id": memory, "id": memory, "agent": "a1"})
    with ThreadPoolExecutor(8) as threads:
        read_paths = threads.map(lambda path: read(web_system, path), paths)
        bodies = dict(zip(paths, read_paths, strict=True))
    tools = call_reading_tools(web_system, uid)
    said = [
        web_system.say(uid, make_text(text), query="?wait=20").body.decode()
        for text in (f"/search {WORDS}", f"/read {guid}", "/read")
    ]

    assert len(bodies) > 100 and len(tools) > 7 and "memory" in tools
    shown = [path for path, body in bodies.items() if CANARY.encode() in body]
    assert [path for path in shown if "/reviews" not in path] == []
    assert not [name for name, result in tools.items() if CANARY in result]
    assert not [answer for answer in said if CANARY in answer]
    assert CANARY in web_system.get(f"/v1/pipelines/{uid}/reviews").body.decode()


def list_reads(uid: str, values: dict[str, str]) -> list[str]:
    """Return all paths that answer GET, with values in the places of their fields."""
    known = {"uid": uid, "swarm": "chat", "alias": "keeper"} | values
    return [
        re.sub(r"\{(\w+)\}", lambda field: known.get(field[1], "k"), path)
        for path, methods in read_document()["paths"].items()
        if "get" in methods
    ]


def read(web_system: WebSystem, path: str) -> bytes:
    """Return the body of an answer, or what a stream has sent after a while."""
    address = urlsplit(web_system.url)
    body = b""
    http = HTTPConnection(address.hostname or "", address.port, timeout=READ_S)
    with closing(http), suppress(TimeoutError):
        http.request("GET", path)
        answer = http.getresponse()
        while part := answer.read1():
            body += part
    return body


def call_reading_tools(web_system: WebSystem, uid: str) -> dict[str, str]:
    """Call all tools that read. Return their results by name."""
    results = {}
    for toolset in ("", "/graph", "/files"):
        calls = McpCalls(web_system.url, f"/mcp/{uid}{toolset}")
        for tool in calls("tools/list")["tools"]:
            if tool["annotations"]["readOnlyHint"] or tool["name"] == "memory":
                schema = tool["inputSchema"]
                optional = {"query", "path"} & schema["properties"].keys()
                fields = optional.union(schema.get("required", ()))
                given = {name: make_value(name, schema["properties"][name]) for name in fields}
                results[tool["name"]] = str(calls("tools/call", name=tool["name"], arguments=given))
    return results


def make_value(name: str, schema: dict[str, Any]) -> Any:
    text = "/memories" if name == "path" else "view" if name == "command" else WORDS
    return [text] if schema.get("type") == "array" else text


def make_text(text: str) -> dict[str, Any]:
    part = {"username": "Ada", "text": text, "timestamp": 1, "type": "text/plain"}
    return {"from": "User", "id": "user", "args": [part]}


def test_a_block_whose_write_waits_becomes_a_call(web_system: WebSystem) -> None:
    args = {"memory": "facts", "memory_id": STORE}
    uid = web_system.deploy(
        make_agent("entry", "memory_entry_write", args, on="entry", senders="User"),
        make_agent("fact", "remember", on="fact", senders="User"),
        make_agent("tool", "memory_tool", {"dialect": "anthropic"}, on="tool", senders="User"),
    )
    hold_all(web_system, uid)
    hold_all(web_system, uid, store="stores")
    command = {"command": "create", "path": "/memories/k", "file_text": "tea"}

    def send(swarm: str, text: str) -> str:
        answer = web_system.say(uid, make_text(text), swarm=swarm, query="?wait=20")
        pending = json.loads(answer.texts[0])
        assert "review" in pending, answer.texts
        assert pending["review"] == "pending", answer
        return str(pending["guid"])

    entry, fact = send("entry", "Ada likes tea"), send("fact", "drink = tea")
    file = send("tool", json.dumps(command))

    given = {"guids": [entry, fact]}
    items = call(web_system, uid, "reviews/approve", given).json["items"]
    items += call(web_system, uid, "reviews/approve?store=stores", {"guids": [file]}).json["items"]
    assert [one["status"] for one in items] == ["approved"] * 3, items
    assert entry.replace("-", "") in items[0]["result"]["id"]
    memories = web_system.get(f"/v1/pipelines/{uid}/memories").json["items"]
    assert [one["name"] for one in memories] == ["facts"]
    recalled = call(web_system, uid, "facts/drink/recall", {}).json
    assert "tea" in str(recalled)
