"""/v1/pipelines: deploying, showing, replacing, and removing pipelines."""

from collections.abc import Iterator

import pytest

from tests.support.bundles import Json, make_agent, make_bundle, make_uid
from tests.support.http import Answer, ask
from tests.support.served import Served

BAD = {
    "agent_class": "wf_agent",
    "agent_alias": "bad",
    "wf_agent_name": "bad",
    "wf_diagram_webhook": "memory_wirte",
}


def put(served: Served, uid: str, bundle: Json | bytes) -> Answer:
    return ask(served.url, "PUT", f"/v1/pipelines/{uid}", bundle)


def delete(served: Served, uid: str) -> Answer:
    return ask(served.url, "DELETE", f"/v1/pipelines/{uid}")


def test_a_posted_bundle_is_served_at_once(served: Served) -> None:
    uid = make_uid()

    created = served.post("/v1/pipelines", make_bundle(uid))

    assert created.status == 201
    assert (created.json["pipeline_uid"], len(created.json["hash"])) == (uid, 64)
    assert created.headers["location"] == f"/v1/pipelines/{uid}"
    assert "guid" in served.say(uid, {"text": "/write tea"}, query="?wait=60").texts[0]


def test_a_bundle_without_a_uid_gets_one(served: Served) -> None:
    bundle = make_bundle("")
    del bundle["pipeline_uid"]

    created = served.post("/v1/pipelines", bundle)

    assert created.status == 201
    assert (
        served.get(created.headers["location"]).json["bundle"]["pipeline_uid"]
        == created.json["pipeline_uid"]
    )


def test_posting_an_active_uid_is_a_conflict(served: Served) -> None:
    bundle = make_bundle(make_uid())
    served.post("/v1/pipelines", bundle)

    status, detail = served.post("/v1/pipelines", bundle).problem

    assert status == 409
    assert f"PUT /v1/pipelines/{bundle['pipeline_uid']}" in detail


def test_a_known_pipeline_is_answered_with_304(served: Served) -> None:
    uid = make_uid()
    known = put(served, uid, make_bundle(uid)).headers["etag"]
    at = f"/v1/pipelines/{uid}"

    same = [
        ask(served.url, "GET", at, headers={"If-None-Match": tags})
        for tags in (known, f'"x", W/{known}', "*")
    ]
    put(served, uid, make_bundle(uid, name="another"))
    other = ask(served.url, "GET", at, headers={"If-None-Match": known})

    assert [(answer.status, answer.body, answer.headers["etag"]) for answer in same] == [
        (304, b"", known)
    ] * 3
    assert (other.status, other.json["name"]) == (200, "another")
    assert (
        ask(served.url, "GET", "/v1/pipelines/nobody", headers={"If-None-Match": "*"}).status == 404
    )


def test_a_bad_bundle_is_rejected_with_every_fault(served: Served) -> None:
    bundle = make_bundle(make_uid(), BAD, BAD | {"agent_class": "chat_agnet"})

    refused = served.post("/v1/pipelines", bundle)

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
def test_a_body_that_is_not_a_bundle_is_rejected(served: Served, body: bytes) -> None:
    assert served.post("/v1/pipelines", body).problem[0] == 422


def test_the_next_message_runs_under_the_new_bundle(served: Served) -> None:
    uid = make_uid()
    bundles = [make_bundle(uid, make_agent(name, "add_1", hears="User")) for name in ("old", "new")]

    first, second = [put(served, uid, bundle) for bundle in bundles]
    served.house.client.await_served(uid)

    assert (first.status, second.status, second.json["version"]) == (201, 200, 2)
    assert served.say(uid, "1", query="?wait=60").json["results"][0]["from"] in ("old", "new")
    assert served.get(f"/v1/pipelines/{uid}").json["bundle"]["agents"][0]["wf_agent_name"] == "new"


def test_the_uid_in_the_path_overrides_the_bundle(served: Served) -> None:
    uid, other = make_uid(), make_uid()

    replaced = put(served, uid, make_bundle(other))

    assert replaced.json["pipeline_uid"] == uid
    assert served.get(f"/v1/pipelines/{other}").problem[0] == 404


def test_a_bad_replacement_leaves_the_old_bundle_running(served: Served) -> None:
    uid = served.deploy()

    refused = put(served, uid, make_bundle(uid, BAD))

    assert refused.problem[0] == 422
    assert served.say(uid, {"text": "/read"}, query="?wait=60").texts == ["[]"]


@pytest.mark.parametrize("uid", ["a%2Fb", "%2e%2e", "a%00b", "a%0d%0aX:y", "a" * 65, "%ff"])
def test_an_invalid_uid_is_rejected(served: Served, uid: str) -> None:
    refused = put(served, uid, make_bundle("x"))

    assert refused.problem[0] == 422
    assert not [
        item for item in served.get("/v1/pipelines").json["items"] if "/" in item["pipeline_uid"]
    ]


def test_a_pipeline_is_shown_with_its_bundle_and_hash(served: Served) -> None:
    uid = served.deploy()

    shown = served.get(f"/v1/pipelines/{uid}")

    assert shown.status == 200
    assert shown.headers["etag"] == f'"{shown.json["hash"]}"'
    assert [agent["agent_alias"] for agent in shown.json["bundle"]["agents"]][:2] == [
        "dispatch_write_",
        "dispatch_read_",
    ]


def test_a_name_is_not_a_uid(served: Served) -> None:
    served.house.deploy(make_bundle(make_uid(), name="only_one"))

    assert served.get("/v1/pipelines/only_one").problem[0] == 404
    assert delete(served, "only_one").problem[0] == 404


def test_a_removed_pipeline_accepts_nothing_and_keeps_its_records(served: Served) -> None:
    uid = served.deploy()
    served.say(uid, {"text": "/write tea"}, query="?wait=60")

    removed = delete(served, uid)

    assert (removed.status, removed.body) == (204, b"")
    assert served.say(uid, {"text": "/write milk"}).problem[0] == 404
    assert delete(served, uid).problem[0] == 404
    assert served.house.contents(uid) == ["tea"]


@pytest.fixture
def three(served: Served) -> Iterator[list[str]]:
    uids = sorted(served.deploy(name="three") for _ in range(3))
    yield uids
    for uid in uids:
        assert delete(served, uid).status == 204


def test_the_pages_of_pipelines_are_complete(served: Served, three: list[str]) -> None:
    pages = [served.get("/v1/pipelines?limit=2").json]
    while cursor := pages[-1]["next_cursor"]:
        pages.append(served.get(f"/v1/pipelines?limit=2&cursor={cursor}").json)

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
def test_an_invalid_page_query_is_rejected(served: Served, query: str) -> None:
    assert served.get(f"/v1/pipelines?{query}").problem[0] == 400
