"""/v1/keys: list, create and revoke keys over HTTP, and the limits of what a key may create."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import pytest

from memrelay.memory.control.keys import ALL, SCOPES
from tests.support.http import Answer, ask
from tests.support.keys import ApiKey, make_key, revoke
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem

PATH = "/v1/keys"


@pytest.fixture(scope="module")
def keyed() -> Iterator[WebSystem]:
    """Yield a server without a worker, where keys are required."""
    with WebSystem(worker=False, WEB__RATE="0") as web_system:
        make_key(web_system.system.root)
        wait_for(lambda: web_system.get(PATH).status == 401, "a key is required")
        yield web_system


@pytest.fixture(scope="module")
def admin(keyed: WebSystem) -> ApiKey:
    return known(keyed, make_key(keyed.system.root))


def known(web_system: WebSystem, key: ApiKey) -> ApiKey:
    """Wait until the server knows a key that another process created."""
    wait_for(lambda: send(web_system, "GET", PATH, key).status != 401, "the key is known")
    return key


def send(
    web_system: WebSystem, method: str, path: str, key: ApiKey | None, body: Any = b""
) -> Answer:
    return ask(web_system.url, method, path, body, key.headers if key else {})


def new_key(**fields: Any) -> dict[str, Any]:
    return {"name": "ann", "scopes": ["read"], "pipelines": [ALL]} | fields


def test_a_created_key_works_at_once_until_it_is_revoked(keyed: WebSystem, admin: ApiKey) -> None:
    answer = send(keyed, "POST", PATH, admin, new_key(scopes=["read", "publish"], expires="90d"))
    made = answer.json
    key = ApiKey(made["id"], made["key"])

    assert answer.status == 201 and answer.headers["cache-control"] == "no-store"
    assert (made["scopes"], made["pipelines"], made["is_first"]) == (
        ["publish", "read"],
        [ALL],
        False,
    )
    assert datetime.fromisoformat(made["expires_at"]) - datetime.fromisoformat(
        made["created_at"]
    ) == timedelta(days=90)
    assert made["notes"] == ["this key is not shown again; send it as Authorization: Bearer KEY"]
    assert send(keyed, "GET", "/v1/pipelines", key).status == 200

    assert send(keyed, "DELETE", f"{PATH}/{key.id}", admin).status == 204
    assert "was revoked" in send(keyed, "GET", "/v1/pipelines", key).problem[1]


def test_the_list_has_every_key_and_no_secret(keyed: WebSystem, admin: ApiKey) -> None:
    made = send(keyed, "POST", PATH, admin, new_key(name="listed")).json
    send(keyed, "DELETE", f"{PATH}/{made['id']}", admin)

    answer = send(keyed, "GET", PATH, admin)
    pages, cursor = [], "0"
    while cursor:
        page = send(keyed, "GET", f"{PATH}?limit=2&cursor={cursor}", admin).json
        pages, cursor = pages + page["items"], page["next_cursor"]

    (item,) = [one for one in answer.json["items"] if one["id"] == made["id"]]
    assert item.keys() == made.keys() - {"key", "is_first", "notes"}
    assert item["name"] == "listed" and item["revoked_at"] and not item["in_force"]
    assert answer.json["total"] == len(pages) and pages == answer.json["items"]
    assert made["key"].encode()[16:] not in answer.body


def test_a_key_gives_only_the_scopes_that_it_has(keyed: WebSystem) -> None:
    """Every pair of scopes: one of the creator next to admin, and one of the new key."""
    creators = {owned: make_key(keyed.system.root, owned, "admin") for owned in SCOPES}

    for owned, key in creators.items():
        creator = known(keyed, key)
        answers = {
            wanted: send(keyed, "POST", PATH, creator, new_key(scopes=[wanted]))
            for wanted in SCOPES
        }

        granted = {wanted for wanted, answer in answers.items() if answer.status == 201}
        assert granted == {owned, "admin"}
        refused = [answers[wanted] for wanted in SCOPES if wanted not in granted]
        assert {answer.status for answer in refused} == {403}
        assert all(answer.json["faults"][0]["pointer"] == "/scopes" for answer in refused)


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_keys_need_admin_on_all_pipelines(keyed: WebSystem, method: str) -> None:
    path = f"{PATH}/nobody" if method == "DELETE" else PATH
    limited = known(keyed, make_key(keyed.system.root, pipelines=("mine",)))
    reader = known(keyed, make_key(keyed.system.root, *[one for one in SCOPES if one != "admin"]))

    answers = [send(keyed, method, path, key, new_key()) for key in (limited, reader, None)]

    assert [answer.status for answer in answers] == [403, 403, 401]
    assert "needs a key for all pipelines" in answers[0].problem[1]
    assert 'needs the scope "admin"' in answers[1].problem[1]


def test_a_key_gives_no_longer_lifetime_than_its_own(keyed: WebSystem) -> None:
    creator = known(keyed, make_key(keyed.system.root, lasts_ms=3_600_000))

    inherited, forever = (
        send(keyed, "POST", PATH, creator, new_key(**fields))
        for fields in ({}, {"expires": "never"})
    )

    assert inherited.status == 201
    assert (
        abs(datetime.fromisoformat(inherited.json["expires_at"]).timestamp() - time.time() - 3600)
        < 60
    )
    assert forever.status == 403 and forever.json["faults"][0]["pointer"] == "/expires"


def test_a_key_that_was_just_revoked_creates_no_other(keyed: WebSystem) -> None:
    creator = known(keyed, make_key(keyed.system.root))
    revoke(keyed.system.root, creator)

    answer = send(keyed, "POST", PATH, creator, new_key(name="late"))

    assert (answer.status, "was revoked" in answer.problem[1]) == (401, True)


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        ({}, {"/name", "/scopes", "/pipelines"}),
        (new_key(scopes=["raed"], pipelines=["nope"]), {"/scopes/0", "/pipelines/0"}),
        (new_key(scopes="read", expires=90), {"/scopes", "/expires"}),
        (new_key(expires="5y"), {"/expires"}),
        (new_key(secret="mine"), {"/secret"}),
        (new_key(name=""), {"/name"}),
    ],
)
def test_faults_of_a_new_key_name_their_fields(
    keyed: WebSystem, admin: ApiKey, body: Any, pointers: set[str]
) -> None:
    answer = send(keyed, "POST", PATH, admin, body)

    assert answer.status == 422
    assert {fault["pointer"] for fault in answer.json["faults"]} == pointers


def test_an_unknown_pipeline_is_accepted_only_on_request(keyed: WebSystem, admin: ApiKey) -> None:
    refused = send(keyed, "POST", PATH, admin, new_key(pipelines=["later"]))
    made = send(keyed, "POST", PATH, admin, new_key(pipelines=["later"], allow_undeployed=True))

    assert '"allow_undeployed": true' in refused.problem[1]
    assert made.status == 201 and "not deployed yet: later" in made.json["notes"][1]


def test_revoking_an_unknown_key_is_not_found(keyed: WebSystem, admin: ApiKey) -> None:
    answer = send(keyed, "DELETE", f"{PATH}/nobody", admin)

    assert answer.problem == (404, "no key 'nobody'; GET /v1/keys lists all keys")


def test_the_first_key_over_http_closes_the_server_and_says_so() -> None:
    with WebSystem(worker=False) as web_system:
        assert web_system.get(PATH).json["items"] == []

        made = web_system.post(PATH, new_key(scopes=["admin", "read"]))

        assert made.status == 201 and made.json["is_first"]
        assert "HTTP now requires a key, also on this machine" in made.json["notes"][-1]
        assert (
            web_system.get("/v1/pipelines").status == web_system.post(PATH, new_key()).status == 401
        )
        key = ApiKey(made.json["id"], made.json["key"])
        assert send(web_system, "GET", PATH, key).json["total"] == 1


def test_of_concurrent_first_keys_exactly_one_is_created() -> None:
    with WebSystem(worker=False) as web_system, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: web_system.post(PATH, new_key()), range(8)))

        assert sorted(answer.status for answer in answers) == [201, *[401] * 7]


def test_a_first_key_of_another_process_closes_the_route_at_once() -> None:
    with WebSystem(worker=False) as web_system:
        assert web_system.get(PATH).status == 200
        make_key(web_system.system.root)

        assert web_system.post(PATH, new_key()).status == 401


def test_a_web_page_of_another_site_creates_no_key() -> None:
    with WebSystem(worker=False) as web_system:
        headers = {"Origin": "https://evil.example", "Content-Type": "application/json"}

        assert ask(web_system.url, "POST", PATH, new_key(), headers).status == 403
        assert web_system.get(PATH).json["total"] == 0
