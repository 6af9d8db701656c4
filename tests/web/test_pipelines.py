"""/v1/pipelines: deploying, showing, replacing, and removing pipelines."""

from collections.abc import Iterator

import pytest

from tests.support.bundles import Json, make_agent, make_bundle, make_uid
from tests.support.http import Answer, ask
from tests.support.web_system import WebSystem

BAD = {
    "agent_class": "wf_agent",
    "agent_alias": "bad",
    "wf_agent_name": "bad",
    "wf_diagram_webhook": "memory_wirte",
}


def put(web_system: WebSystem, uid: str, bundle: Json | bytes) -> Answer:
    return ask(web_system.url, "PUT", f"/v1/pipelines/{uid}", bundle)


def delete(web_system: WebSystem, uid: str) -> Answer:
    return ask(web_system.url, "DELETE", f"/v1/pipelines/{uid}")


def test_a_posted_bundle_is_served_at_once(web_system: WebSystem) -> None:
    uid = make_uid()

    created = web_system.post("/v1/pipelines", make_bundle(uid))

    assert created.status == 201
    assert (created.json["pipeline_uid"], len(created.json["hash"])) == (uid, 64)
    assert created.headers["location"] == f"/v1/pipelines/{uid}"
    assert "guid" in web_system.say(uid, {"text": "/write tea"}, query="?wait=60").texts[0]


def test_a_bundle_without_a_uid_gets_one(web_system: WebSystem) -> None:
    bundle = make_bundle("")
    del bundle["pipeline_uid"]

    created = web_system.post("/v1/pipelines", bundle)

    assert created.status == 201
    assert (
        web_system.get(created.headers["location"]).json["bundle"]["pipeline_uid"]
        == created.json["pipeline_uid"]
    )


def test_posting_an_active_uid_is_a_conflict(web_system: WebSystem) -> None:
    bundle = make_bundle(make_uid())
    web_system.post("/v1/pipelines", bundle)

    status, detail = web_system.post("/v1/pipelines", bundle).problem

    assert status == 409
    assert f"PUT /v1/pipelines/{bundle['pipeline_uid']}" in detail


def test_a_known_pipeline_is_answered_with_304(web_system: WebSystem) -> None:
    uid = make_uid()
    known = put(web_system, uid, make_bundle(uid)).headers["etag"]
    at = f"/v1/pipelines/{uid}"

    same = [
        ask(web_system.url, "GET", at, headers={"If-None-Match": tags})
        for tags in (known, f'"x", W/{known}', "*")
    ]
    put(web_system, uid, make_bundle(uid, name="another"))
    other = ask(web_system.url, "GET", at, headers={"If-None-Match": known})

    assert [(answer.status, answer.body, answer.headers["etag"]) for answer in same] == [
        (304, b"", known)
    ] * 3
    assert (other.status, other.json["name"]) == (200, "another")
    assert (
        ask(web_system.url, "GET", "/v1/pipelines/nobody", headers={"If-None-Match": "*"}).status
        == 404
    )


def test_a_bad_bundle_is_rejected_with_every_fault(web_system: WebSystem) -> None:
    bundle = make_bundle(make_uid(), BAD, BAD | {"agent_class": "chat_agnet"})

    refused = web_system.post("/v1/pipelines", bundle)

    assert refused.problem[0] == 422
    pointers = [fault["pointer"] for fault in refused.json["faults"]]
    assert {
        "/agents/0/wf_diagram_webhook",
        "/agents/1/agent_class",
        "/agents/1/agent_alias",
    } <= set(pointers)


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{", b"\xff", b'{"agents": ' + b"[" * 2000 + b"]" * 2000 + b"}"],
    ids=["nothing", "a list", "half", "no text", "deep"],
)
def test_a_body_that_is_not_a_bundle_is_rejected(web_system: WebSystem, body: bytes) -> None:
    assert web_system.post("/v1/pipelines", body).problem[0] == 422


def test_the_next_message_runs_under_the_new_bundle(web_system: WebSystem) -> None:
    uid = make_uid()
    bundles = [
        make_bundle(uid, make_agent(name, "add_1", senders="User")) for name in ("old", "new")
    ]

    first, second = [put(web_system, uid, bundle) for bundle in bundles]
    web_system.system.client.await_served(uid)

    assert (first.status, second.status, second.json["version"]) == (201, 200, 2)
    assert web_system.say(uid, "1", query="?wait=60").json["results"][0]["from"] in ("old", "new")
    assert (
        web_system.get(f"/v1/pipelines/{uid}").json["bundle"]["agents"][0]["wf_agent_name"] == "new"
    )


def test_the_uid_in_the_path_overrides_the_bundle(web_system: WebSystem) -> None:
    uid, other = make_uid(), make_uid()

    replaced = put(web_system, uid, make_bundle(other))

    assert replaced.json["pipeline_uid"] == uid
    assert web_system.get(f"/v1/pipelines/{other}").problem[0] == 404


def test_a_bad_replacement_leaves_the_old_bundle_running(web_system: WebSystem) -> None:
    uid = web_system.deploy()

    refused = put(web_system, uid, make_bundle(uid, BAD))

    assert refused.problem[0] == 422
    assert web_system.say(uid, {"text": "/read"}, query="?wait=60").texts == ["[]"]


@pytest.mark.parametrize("uid", ["a%2Fb", "%2e%2e", "a%00b", "a%0d%0aX:y", "a" * 65, "%ff"])
def test_an_invalid_uid_is_rejected(web_system: WebSystem, uid: str) -> None:
    refused = put(web_system, uid, make_bundle("x"))

    assert refused.problem[0] == 422
    assert not [
        item
        for item in web_system.get("/v1/pipelines").json["items"]
        if "/" in item["pipeline_uid"]
    ]


def test_a_pipeline_is_shown_with_its_bundle_and_hash(web_system: WebSystem) -> None:
    uid = web_system.deploy()

    shown = web_system.get(f"/v1/pipelines/{uid}")

    assert shown.status == 200
    assert shown.headers["etag"] == f'"{shown.json["hash"]}"'
    assert [agent["agent_alias"] for agent in shown.json["bundle"]["agents"]][:2] == [
        "dispatch_write_",
        "dispatch_read_",
    ]


def test_a_name_is_not_a_uid(web_system: WebSystem) -> None:
    web_system.system.deploy(make_bundle(make_uid(), name="only_one"))

    assert web_system.get("/v1/pipelines/only_one").problem[0] == 404
    assert delete(web_system, "only_one").problem[0] == 404


def test_a_removed_pipeline_accepts_nothing_and_keeps_its_records(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    web_system.say(uid, {"text": "/write tea"}, query="?wait=60")

    removed = delete(web_system, uid)

    assert (removed.status, removed.body) == (204, b"")
    assert web_system.say(uid, {"text": "/write milk"}).problem[0] == 404
    assert delete(web_system, uid).problem[0] == 404
    assert web_system.system.contents(uid) == ["tea"]


@pytest.fixture
def three(web_system: WebSystem) -> Iterator[list[str]]:
    uids = sorted(web_system.deploy(name="three") for _ in range(3))
    yield uids
    for uid in uids:
        assert delete(web_system, uid).status == 204


def test_the_pages_of_pipelines_are_complete(web_system: WebSystem, three: list[str]) -> None:
    pages = [web_system.get("/v1/pipelines?limit=2").json]
    while cursor := pages[-1]["next_cursor"]:
        pages.append(web_system.get(f"/v1/pipelines?limit=2&cursor={cursor}").json)

    found = [item["pipeline_uid"] for page in pages for item in page["items"]]
    assert set(three) <= set(found)
    assert (len(found), len(set(found))) == (pages[0]["total"], pages[0]["total"])


@pytest.mark.parametrize(
    "query",
    [
        "cursor=x",
        "cursor=%ff",
        "cursor=W10=",
        "cursor=MQ==",
        "limit=0",
        "limit=001000000",
        "limit=x",
        "what=1",
    ],
)
def test_an_invalid_page_query_is_rejected(web_system: WebSystem, query: str) -> None:
    assert web_system.get(f"/v1/pipelines?{query}").problem[0] == 400


def test_a_pipeline_describes_itself_in_asyncapi(web_system: WebSystem) -> None:
    uid = make_uid()
    web_system.post("/v1/pipelines", make_bundle(uid))

    document = web_system.get(f"/v1/pipelines/{uid}/asyncapi.json").json

    assert document["asyncapi"] == "3.1.0"
    assert web_system.url.endswith(document["servers"]["web"]["host"])
    assert document["channels"]["swarm-chat"]["servers"] == [{"$ref": "#/servers/bus"}]
    assert web_system.get("/v1/pipelines/nobody/asyncapi.json").status == 404
