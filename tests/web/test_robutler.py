"""Robutler's paths over HTTP: identity, flags, conditions, grants, kv, and bad input."""

import re
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from tests.support.http import Answer, ask
from tests.support.keys import await_closed, make_key
from tests.support.robutler import TOOL, Agent, B
from tests.support.web_system import WebSystem

NUMBERS = count(1)


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem(WEB__RATE="0") as web_system:
        web_system.deploy()
        yield web_system
        assert not [event for event in web_system.web.events if event["event"] == "request_failed"]


@pytest.fixture
def agents(web_system: WebSystem) -> list[Agent]:
    number = next(NUMBERS)
    return [Agent(web_system.url, f"a{place}-{number}") for place in (1, 2)]


@pytest.fixture
def a1(agents: list[Agent]) -> Agent:
    return agents[0]


def test_a_put_answers_with_the_entry(a1: Agent) -> None:
    first = a1.put("k", "tea", ttl=60, namespace="n", ifAbsent=True).json
    again = a1.put("k", "milk", namespace="n", ifAbsent=True).json

    assert (first["value"], first["namespace"], first["storeId"]) == ("tea", "n", a1.id)
    assert (first["ownerId"], first["inContext"], first["encrypted"]) == (a1.id, True, False)
    assert first["expiresAt"] > first["createdAt"] == first["updatedAt"]
    assert (first["success"], first["created"], first["won"]) == (True, True, True)
    assert (again["value"], again["created"], again["won"]) == ("tea", False, False)
    assert a1.get("k").status == 404 and a1.get("k", namespace="n").json["value"] == "tea"


def test_a_put_replaces_the_version_in_if_match(a1: Agent) -> None:
    put = a1.put("k", 1)
    etag = {"If-Match": put.headers["etag"]}

    second, third = [
        ask(a1.url, "PUT", f"{B}/k", {"agentId": a1.id, "value": value}, etag) for value in (2, 3)
    ]

    assert put.headers["etag"] == f'"{put.json["version"]}"'
    assert (second.status, third.status, third.json["error"]) == (200, 409, "Conflict")
    assert a1.get("k").json["value"] == 2


def test_a_delete_requires_the_version_in_if_match(a1: Agent) -> None:
    first, second = a1.put("k", 1), a1.put("k", 2)
    path = f"{B}/k?agentId={a1.id}"

    stale, fits, gone = [
        ask(a1.url, "DELETE", path, b"", {"If-Match": put.headers["etag"]})
        for put in (first, second, second)
    ]

    assert (stale.status, stale.json["error"]) == (409, "Conflict")
    assert (fits.status, fits.json["deleted"], gone.status) == (200, True, 409)


def test_a_put_with_if_none_match_writes_only_a_new_entry(web_system: WebSystem, a1: Agent) -> None:
    new = {"If-None-Match": "*"}

    def put(key: str, value: int, headers: dict[str, str]) -> Answer:
        return ask(a1.url, "PUT", f"{B}/{key}", {"agentId": a1.id, "value": value}, headers)

    once = new | {"Idempotency-Key": f"new-{a1.id}"}
    first, retried, second = put("k", 1, once), put("k", 1, once), put("k", 2, new)

    assert (first.json["won"], retried.body) == (True, first.body)
    assert (second.status, second.json["error"], a1.get("k").json["value"]) == (409, "Conflict", 1)
    assert put("k", 2, {"If-None-Match": '"x"'}).status == 400
    path, body = "/v1/pipelines/{}/items/v1", {"agent": a1.id, "store": a1.id, "value": 1}
    uid = web_system.get("/v1/pipelines").json["items"][0]["pipeline_uid"]
    answers = [ask(a1.url, "PUT", path.format(uid), body, new).status for _ in range(2)]
    assert answers == [200, 412]


def test_a_repeated_put_with_its_key_gets_the_same_answer(a1: Agent) -> None:
    body, keyed = {"agentId": a1.id, "value": 1}, {"Idempotency-Key": f"put-{a1.id}"}

    first, again = [ask(a1.url, "PUT", f"{B}/k", body, keyed) for _ in range(2)]
    other = ask(a1.url, "PUT", f"{B}/k", body | {"value": 2}, keyed)

    assert (first.status, first.body) == (200, again.body) and first.json["created"]
    assert other.status == 422 and "Idempotency-Key" not in other.json["error"]


def test_a_put_over_a_hidden_entry_repeats_its_flags(a1: Agent) -> None:
    hidden = a1.put("k", "secret", inContext=False)

    assert hidden.json["value"] is None
    assert a1.put("k", "tea").json["error"] == "Denied"
    assert a1.get("k").json["value"] == "secret"
    assert a1.put("k", "other", inContext=False).status == 200


def test_a_delete_removes_only_the_own_entry(agents: list[Agent]) -> None:
    a1, a2 = agents
    a1.put("k", 1)
    a1.share(a2.id, "readwrite")

    others = a2.call("DELETE", f"{B}/k", store=a1.id)
    own, again = [a1.call("DELETE", f"{B}/k").json for _ in range(2)]

    assert others.status == 403
    assert own == {"success": True, "deleted": True}
    assert again == {"success": True, "deleted": False}


def test_a_key_is_decoded_once(a1: Agent) -> None:
    keys = {
        "a/b": "a/b",
        "c%2fd": "c/d",
        "e+f": "e+f",
        "%252F": "%2F",
        "g/": "g/",
        "%2F%2Fh": "//h",
        "i%0Aj": "i\nj",
    }
    for path, key in keys.items():
        put = ask(a1.url, "PUT", f"{B}/{path}", {"agentId": a1.id, "value": path})
        assert (put.status, put.json["key"]) == (200, key), path
        assert a1.get(key).json["value"] == path

    assert a1.browse().json["keys"] == sorted(keys.values())


def test_an_owner_selects_among_entries_of_one_key(agents: list[Agent]) -> None:
    a1, a2 = agents
    a1.share(a2.id, "readwrite")
    a1.put("k", "mine")
    a2.put("k", "theirs", store=a1.id)

    assert a1.get("k").json["value"] == "mine"
    assert a1.get("k", owner=a2.id).json["value"] == "theirs"
    assert a1.browse().json["keys"] == ["k"] and len(a1.browse().json["entries"]) == 2


def test_a_share_is_removed_by_the_agent_of_the_store(agents: list[Agent]) -> None:
    a1, a2 = agents
    a1.put("k", 1)
    a1.share(a2.id)
    own = {"storeId": a2.id, "level": "readwrite", "source": "self"}
    shared = {"storeId": a1.id, "level": "read", "source": "grant"}
    assert a2.browse(action="stores").json == {"stores": [own, shared]}
    page = a2.browse(action="stores", limit="1").json
    assert page["stores"] == [own]
    rest = a2.browse(action="stores", limit="1", cursor=page["cursor"]).json
    assert rest == {"stores": [shared]}

    removed = ask(a1.url, "DELETE", f"{B}/?action=share&store={a1.id}&grantee={a2.id}")

    assert (removed.status, removed.json) == (200, {"success": True})
    assert a2.browse(action="stores").json == {"stores": [own]}


def test_a_grant_decides_for_a_participant_until_that_agent_removes_it(
    agents: list[Agent],
) -> None:
    a1, a2 = agents
    chat = f"chat-{a1.id}"
    seat = {"store": chat, "chatId": chat}
    a1.put("k", "tea", **seat)
    share = {"agentId": a1.id, "grantee": a2.id, "level": "search", **seat}

    assert ask(a1.url, "POST", f"{B}/?action=share", share).json == {"success": True}
    assert (a2.get("k", **seat).status, a2.put("m", 1, **seat).status) == (403, 403)
    assert a2.browse(action="search", q="tea", **seat).json["results"]
    removed = a2.call("DELETE", f"{B}/", action="share", grantee=a2.id, **seat)
    assert (removed.status, a2.get("k", **seat).json["value"]) == (200, "tea")
    for level, rest in (("read", {}), ("search", {"lowers": True})):
        shared = ask(a1.url, "POST", f"{B}/?action=share", share | {"level": level})
        assert shared.json == {"success": True} | rest


def test_the_chat_and_the_user_of_a_request_are_vouched_for(a1: Agent) -> None:
    chat, user = f"chat-{a1.id}", f"user-{a1.id}"

    put = a1.put("k", 1, store=chat, chatId=chat)

    assert put.status == 200 and a1.get("k", store=chat, chatId=chat).status == 200
    assert a1.get("k", store=chat).status == 403 and a1.get("k", store=user).status == 403
    assert a1.put("k", 1, store=user, userId=user).status == 200
    assert a1.put("k", 1, store="undefined", userId="undefined").status == 403


def test_kv_keeps_hidden_values_of_a_subject(a1: Agent) -> None:
    subject = {"subjectType": "agent", "subjectId": a1.id, "key": "token"}
    query = f"subjectType=agent&subjectId={a1.id}"

    written = ask(a1.url, "POST", "/api/kv", subject | {"value": "s3cret"})
    found = ask(a1.url, "GET", f"/api/kv?{query}&key=token")
    missing = ask(a1.url, "GET", f"/api/kv/?{query}&key=none")

    assert (written.status, written.json) == (200, {"success": True})
    assert found.json == {"found": True, "value": "s3cret"}
    assert missing.json == {"found": False, "value": None}
    assert a1.browse().json["keys"] == []
    assert ask(a1.url, "GET", "/api/kv?subjectType=chat&subjectId=c&key=k").status == 400


def test_internal_entries_are_listed_without_values_for_administrators(a1: Agent) -> None:
    a1.put("k", "secret", inContext=False)

    page = a1.browse(inContext="false").json

    assert page["keys"] == ["k"] and page["entries"][0]["value"] is None


BAD: list[tuple[str, str, Any]] = [
    ("PUT", f"{B}/k?agentId=a1", {}),
    ("PUT", f"{B}/k?agentId=a1", b"{"),
    ("PUT", f"{B}/k?agentId=a1", b'{"value": [18446744073709551616]}'),
    ("PUT", f"{B}/k?agentId=a1", b'{"value": %b1%b}' % (b"[" * 150, b"]" * 150)),
    ("PUT", f"{B}/k?agentId=a1", {"value": 1, "ttl": -1}),
    ("PUT", f"{B}/k?agentId=a1", {"value": 1, "ttls": 1}),
    ("PUT", f"{B}/k?agentId=a1", {"value": 1, "vouched": ["user"]}),
    ("PUT", f"{B}/k?agentId=a1", {"value": 1, "store": "s" * 65}),
    ("PUT", f"{B}/k?agentId=a1", {"value": 1, "store": 0}),
    ("PUT", f"{B}/k", {"value": 1}),
    ("PUT", f"{B}/k?agentId=undefined", {"value": 1}),
    ("PUT", f"{B}/{'k' * 201}?agentId=a1", {"value": 1}),
    ("PUT", f"{B}/%FF?agentId=a1", {"value": 1}),
    ("GET", f"{B}/k", b""),
    ("GET", f"{B}/k?agentId=a1&inContext=1", b""),
    ("GET", f"{B}/k?agentId=a1&vouched=user", b""),
    ("GET", f"{B}?agentId=a1&limit=0", b""),
    ("GET", f"{B}?agentId=a1&limit=1001", b""),
    ("GET", f"{B}?agentId=a1&cursor=x", b""),
    ("GET", f"{B}?agentId=a1&action=share", b""),
    ("GET", f"{B}?agentId=a1&action=search", b""),
    ("GET", f"{B}?agentId=a1&action=search&q=", b""),
    ("POST", f"{B}?agentId=a1", {"grantee": "a2"}),
    ("POST", f"{B}?action=share", {"agentId": "a1"}),
    ("POST", f"{B}?action=share", {"agentId": "a1", "grantee": "a2", "level": "admin"}),
    ("DELETE", f"{B}?action=share&grantee=a2", b""),
    ("POST", "/api/kv?agentId=a1", {"key": "k"}),
    ("GET", "/api/kv?agentId=a1", b""),
    ("GET", "/api/kv?subjectId=undefined&key=k", b""),
    ("POST", TOOL, {"command": "stores"}),
    ("POST", f"{TOOL}?agentId=a1&dialect=other", {"command": "stores"}),
    ("POST", f"{TOOL}?agentId=a1", b"[]"),
]


@pytest.mark.parametrize(("method", "path", "body"), BAD)
def test_bad_input_is_refused(web_system: WebSystem, method: str, path: str, body: Any) -> None:
    answer = ask(web_system.url, method, path, body)

    assert (answer.status, answer.json["error"]) == (400, "Invalid"), answer


def test_errors_have_the_names_of_the_paths(a1: Agent) -> None:
    a1.put("in_context", 1, inContext=False)
    details = {
        "ttl": a1.put("k", 1, ttl=-1),
        "inContext": a1.put("k", 1, inContext="yes"),
        "ifAbsent": a1.put("k", 1, ifAbsent="yes"),
        "chatId": a1.put("k", 1, chatId="c" * 65),
        "'ttl_s' in store": a1.get("ttl_s"),
        "use GET /api/storage/memory/ to": a1.get("none"),
        "repeat `inContext: false`": a1.put("in_context", 2),
        "entry 'in_context' is internal": a1.put("in_context", 2),
        "namespace, prefix or `inContext`;": a1.browse(cursor="WyJ4IiwiYSIsImIiLCIiXQ"),
        "?action=share": a1.get("k", store="elsewhere"),
    }

    for expected, answer in details.items():
        detail = answer.json["detail"]
        assert expected in detail, answer
        own = detail.replace("'in_context'", "").replace("'ttl_s'", "")
        assert not re.search(r"ttl_s|in_context|if_|items\.|grants\.|chat ", own), answer


@pytest.mark.parametrize("path", [f"PUT {B}/k", f"POST {B}?action=share", "POST /api/kv"])
def test_identities_in_query_and_body_must_agree(a1: Agent, path: str) -> None:
    method, _, path = path.partition(" ")
    body = {"agentId": a1.id, "chatId": None, "grantee": "g", "value": 1, "key": "k"}
    kept = {"PUT": ["value"], "POST": ["grantee"] if "share" in path else ["key", "value"]}[method]
    body = {name: body[name] for name in ("agentId", "chatId", *kept)}
    joint = "&" if "?" in path else "?"

    same = ask(a1.url, method, f"{path}{joint}agentId={a1.id}&chatId=c1", body)
    other = ask(a1.url, method, f"{path}{joint}agentId=b9", body)

    assert same.status == 200
    assert (other.status, other.json["error"]) == (400, "Invalid")
    assert "'b9' in the query" in other.json["detail"] and repr(a1.id) in other.json["detail"]


def test_v1_sets_the_identity_and_refuses_vouched(web_system: WebSystem, a1: Agent) -> None:
    uid = web_system.deploy()
    there = f"/v1/pipelines/{uid}/items"
    mine = {"agent": a1.id, "store": a1.id}

    put = ask(web_system.url, "PUT", f"{there}/k", mine | {"value": [1, None]})
    vouched = ask(web_system.url, "PUT", f"{there}/k", mine | {"value": 1, "vouched": ["user"]})
    in_chat = {"agent": a1.id, "store": "c1", "chat": "c1"}

    assert put.status == 200 and put.json["entry"]["value"] == [1, None]
    assert vouched.problem == (400, "vouched is set by the server; omit it")
    assert ask(web_system.url, "PUT", f"{there}/k", in_chat | {"value": 1}).status == 200
    assert ask(web_system.url, "GET", f"{there}/k?agent={a1.id}&store=c1").problem[0] == 403
    stale = ask(web_system.url, "PUT", f"{there}/k", mine | {"value": 1}, {"If-Match": '"0-0"'})
    assert stale.problem[0] == 412
    unclear = ask(web_system.url, "GET", f"{B}/k?agentId={a1.id}")
    assert unclear.status == 400 and uid in unclear.json["detail"]
    assert "The uids are " in unclear.json["detail"]
    # The pipeline is one of two now, so the other tests would need a prefix.
    web_system.system.remove(uid)


def test_the_scopes_of_a_key_limit_what_it_reads() -> None:
    with WebSystem() as web_system:
        uid, root = web_system.deploy(), web_system.system.root
        texts = {scope: make_key(root, scope).text for scope in ("write", "search", "read")}
        agents = {
            scope: Agent(web_system.url, "a1", {"X-API-Key": text}) for scope, text in texts.items()
        }
        await_closed(web_system)

        put = agents["write"].call("PUT", f"/p/{uid}{B}/k/", {"value": "green tea"})
        lost = agents["write"].call("PUT", f"{B}/k%2F", {"value": "", "ifAbsent": True})

        assert (put.status, lost.status, lost.json["won"]) == (200, 200, False)
        assert "value" not in put.json and "value" not in lost.json
        assert agents["search"].search("tea") == ["k/"]
        assert agents["search"].browse().status == agents["write"].get("k/").status == 403
        assert agents["read"].browse().json["keys"] == ["k/"]
        assert agents["read"].browse(inContext="false").status == 403
        assert agents["search"].tool(command="search", query="tea")["results"]
        denied = ask(
            web_system.url,
            "POST",
            f"{TOOL}?agentId=a1",
            {"command": "create"},
            agents["read"].headers,
        )
        assert denied.status == 403
