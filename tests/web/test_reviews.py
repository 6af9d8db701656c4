"""Writes that wait for review, over HTTP: the answer of each API, who may decide, and that a
decision has one effect.
"""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from memrelay import connect, connect_sync
from memrelay.integrations.langgraph import MemrelayStore
from memrelay.memory.stopped_writes import Dropped, ReviewPending
from tests.support.http import Answer, ask
from tests.support.keys import await_closed, make_key
from tests.support.mcp_calls import McpCalls
from tests.support.robutler import Agent
from tests.support.web_system import WebSystem

POLICY = "strangers wait"


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
    agent = Agent(web_system.url, f"a-{uid}")
    item = {"scope": "users", "key": "k", "data": {"value": {"a": "tea"}}, "content": "tea"}

    held = [
        call(web_system, uid, "records", {"content": "tea"}),
        call(web_system, uid, "records/append", {"content": "tea", "kind": "log"}),
        web_system.post(f"/api/v1/memories/{memory}/entries", {"content": "Ada likes tea"}),
        call(web_system, uid, "facts/k/set", {"value": "tea"}),
    ]
    internal = agent.put("k", "tea")
    graph = ask(web_system.url, "PUT", f"/v1/pipelines/{uid}/records", {"items": [item]})

    assert list_waiting(web_system, uid) == [read_guid(one) for one in held]
    assert list_waiting(web_system, uid, "stores") == [read_guid(internal)]
    assert list_waiting(web_system, uid, "langgraph") == [read_guid(graph)]
    assert call(web_system, uid, "records/search", {"query": "tea"}).json["items"] == []
    assert agent.get("k").status == 404


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
        unknown = "01a200a0-9980-7000-8018-9f7019b48c30"
        missing = [
            web_system.get(f"/v1/pipelines/{uid}/records/{one}", **writer.headers).problem
            for one in (guid, unknown)
        ]
        assert missing[0][1].replace(guid, unknown) == missing[1][1]
        listed = web_system.get(f"/v1/pipelines/{uid}/records", **writer.headers).json
        assert (listed["items"], listed["total"]) == ([], 0)

        done = call(web_system, uid, "reviews/approve", {"guids": [guid]}, **reviewer.headers)
        assert done.json["items"][0]["status"] == "approved"
        record = web_system.get(f"/v1/pipelines/{uid}/records/{guid}", **writer.headers).json
        assert (record["content"], record["source"]) == ("tea", "Mallory")
