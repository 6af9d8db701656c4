"""Versions of pipelines: listing, rollback, and conditional changes."""

import asyncio

import orjson
import pytest

from memrelay.memory.control.catalog import Catalog
from tests.support.bundles import Json, make_agent, make_bundle, make_uid
from tests.support.http import Answer, ask
from tests.support.web_system import WebSystem


def make_plus(uid: str, amount: int) -> Json:
    return make_bundle(
        uid, make_agent("plus", "add_1", {"amount": amount}, senders="User"), name=f"plus {amount}"
    )


def put(web_system: WebSystem, bundle: Json, **headers: str) -> Answer:
    return ask(web_system.url, "PUT", f"/v1/pipelines/{bundle['pipeline_uid']}", bundle, headers)


def rollback(web_system: WebSystem, uid: str, body: Json | bytes = b"", **headers: str) -> Answer:
    return web_system.post(f"/v1/pipelines/{uid}/rollback", body, **headers)


def versions(web_system: WebSystem, uid: str) -> list[tuple[int, str, bool]]:
    items = web_system.get(f"/v1/pipelines/{uid}/versions").json["items"]
    return [(item["version"], item["name"], item["active"]) for item in items]


def deploy(web_system: WebSystem, *amounts: int) -> tuple[str, list[str]]:
    """Deploy several versions and return the uid and their hashes."""
    uid = make_uid()
    return uid, [put(web_system, make_plus(uid, amount)).json["hash"] for amount in amounts]


def test_a_rollback_is_a_new_version_with_the_old_bundle(web_system: WebSystem) -> None:
    uid, hashes = deploy(web_system, 1, 10)

    answer = rollback(web_system, uid)

    assert (answer.status, answer.json["hash"], answer.json["version"]) == (200, hashes[0], 3)
    assert (answer.json["served"], answer.headers["etag"]) == (True, f'"{hashes[0]}"')
    assert web_system.say(uid, "1", query="?wait=60").texts == ["2"]
    assert versions(web_system, uid) == [
        (3, "plus 1", True),
        (2, "plus 10", False),
        (1, "plus 1", False),
    ]


def test_a_rollback_of_a_rollback_restores_the_bundle(web_system: WebSystem) -> None:
    uid, hashes = deploy(web_system, 1, 10)

    went = [rollback(web_system, uid).json["hash"] for _ in range(3)]

    assert went == [hashes[0], hashes[1], hashes[0]]


def test_a_rollback_can_name_a_version(web_system: WebSystem) -> None:
    uid, hashes = deploy(web_system, 1, 2, 3)

    assert rollback(web_system, uid, {"version": 1}).json["hash"] == hashes[0]
    assert web_system.say(uid, "1", query="?wait=60").texts == ["2"]


def test_a_rollback_to_the_active_bundle_changes_nothing(web_system: WebSystem) -> None:
    uid, _ = deploy(web_system, 1, 2)

    assert rollback(web_system, uid, {"version": 2}).json["version"] == 2
    assert len(versions(web_system, uid)) == 2


def test_a_rollback_reactivates_a_removed_pipeline(web_system: WebSystem) -> None:
    uid, hashes = deploy(web_system, 1, 2)
    ask(web_system.url, "DELETE", f"/v1/pipelines/{uid}")
    listed = versions(web_system, uid)

    answer = rollback(web_system, uid)

    assert listed == [(2, "plus 2", False), (1, "plus 1", False)]
    assert (answer.status, answer.json["hash"], answer.json["version"]) == (201, hashes[1], 3)
    assert web_system.say(uid, "1", query="?wait=60").texts == ["3"]


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ({"version": 9}, "it has versions 1 to 1"),
        ({"version": 2**62}, "it has versions 1 to 1"),
        (b"", "has no earlier bundle"),
        ({}, "has no earlier bundle"),
    ],
)
def test_an_unknown_version_is_not_found(
    web_system: WebSystem, body: Json | bytes, rule: str
) -> None:
    uid, _ = deploy(web_system, 1)

    status, detail = rollback(web_system, uid, body).problem

    assert (status, rule in detail) == (404, True), detail


def test_an_unknown_pipeline_has_no_versions(web_system: WebSystem) -> None:
    assert web_system.get("/v1/pipelines/nobody/versions").problem[0] == 404
    assert rollback(web_system, "nobody").problem[0] == 404


@pytest.mark.parametrize(
    "body",
    [
        b"2",
        b"[2]",
        b"{",
        b'{"version": "2"}',
        b'{"version": true}',
        b'{"version": 0}',
        b'{"version": 1.5}',
        b'{"to": 1}',
    ],
)
def test_a_body_without_a_valid_version_is_rejected(web_system: WebSystem, body: bytes) -> None:
    uid, _ = deploy(web_system, 1, 2)

    assert rollback(web_system, uid, body).problem[0] == 400
    assert len(versions(web_system, uid)) == 2


def test_a_bundle_that_is_no_longer_valid_is_rejected_with_its_faults(
    web_system: WebSystem,
) -> None:
    uid = make_uid()
    asyncio.run(
        put_unchecked(web_system, make_bundle(uid, make_agent("old", "block_of_yesterday")))
    )
    new = put(web_system, make_plus(uid, 1)).json["hash"]

    answer = rollback(web_system, uid)

    assert answer.problem[0] == 422
    assert [fault["pointer"] for fault in answer.json["faults"]] == ["/agents/0/wf_diagram_webhook"]
    assert web_system.get(f"/v1/pipelines/{uid}").json["hash"] == new


async def put_unchecked(web_system: WebSystem, bundle: Json) -> None:
    async with Catalog(web_system.system.root) as catalog:
        await catalog.deploy(
            bundle["pipeline_uid"],
            "old",
            f"hash of {bundle['pipeline_uid']}",
            orjson.dumps(bundle),
            1,
        )


def test_the_pages_of_versions_are_complete(web_system: WebSystem) -> None:
    uid, hashes = deploy(web_system, 1, 2, 3, 4, 5)
    pages = [web_system.get(f"/v1/pipelines/{uid}/versions?limit=2").json]
    while cursor := pages[-1]["next_cursor"]:
        pages.append(web_system.get(f"/v1/pipelines/{uid}/versions?limit=2&cursor={cursor}").json)

    assert [item["hash"] for page in pages for item in page["items"]] == hashes[::-1]
    assert [len(page["items"]) for page in pages] == [2, 2, 1] and pages[0]["total"] == 5


@pytest.mark.parametrize(
    "query", ["cursor=x", "cursor=-1", "cursor=1e9", "cursor=%C2%B2", "limit=0", "what=1"]
)
def test_an_invalid_versions_query_is_rejected(web_system: WebSystem, query: str) -> None:
    uid, _ = deploy(web_system, 1)

    assert web_system.get(f"/v1/pipelines/{uid}/versions?{query}").problem[0] == 400


@pytest.mark.parametrize(
    ("header", "value", "status"),
    [
        ("If_Match", "*", 200),
        ("If_Match", '"HASH"', 200),
        ("If_Match", '"x", "HASH"', 200),
        ("If_Match", 'W/"HASH"', 412),
        ("If_Match", '""', 412),
        ("If_Match", "HASH", 400),
        ("If_Match", '"HASH', 400),
        ("If_Match", " ", 400),
        ("If_None_Match", "*", 412),
        ("If_None_Match", '"HASH"', 400),
    ],
)
def test_a_condition_is_checked_or_rejected_as_malformed(
    web_system: WebSystem, header: str, value: str, status: int
) -> None:
    uid, (active,) = deploy(web_system, 1)

    answer = put(web_system, make_plus(uid, 2), **{header: value.replace("HASH", active)})

    assert answer.status == status
    assert len(versions(web_system, uid)) == 1 + (status == 200)
    assert status != 412 or answer.json["active"] == active


@pytest.mark.parametrize(
    ("header", "value", "status"),
    [("If_None_Match", "*", 201), ("If_Match", "*", 412), ("If_Match", '"x"', 412)],
)
def test_a_condition_on_an_inactive_pipeline(
    web_system: WebSystem, header: str, value: str, status: int
) -> None:
    answer = put(web_system, make_plus(make_uid(), 1), **{header: value})

    assert answer.status == status
    assert status != 412 or answer.json["active"] is None


def test_both_conditions_together_never_hold(web_system: WebSystem) -> None:
    assert put(web_system, make_plus(make_uid(), 1), If_Match="*", If_None_Match="*").status == 412


def test_a_deploy_without_a_worker_returns_at_once() -> None:
    with WebSystem(worker=False) as web_system:
        assert put(web_system, make_plus(make_uid(), 1)).json["served"] is False
