"""/v1/dead-letters: listing, showing, replaying, and dropping."""

from base64 import b64decode
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest

from tests.support.bundles import STORE, Json, make_agent, make_bundle, make_memory, make_relay
from tests.support.client import make_envelope
from tests.support.http import Answer, ask
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem

MISSPELT = "chta"
NOTES = "instances/${pipeline_uid}/notes"


def make_dead_letter(
    web_system: WebSystem, uid: str, text: str = "/write tea", **fields: str
) -> str:
    """Send a message that becomes a dead letter, and return its id."""
    ident = web_system.system.client.enter(uid, text, swarm=MISSPELT, **fields)
    web_system.system.await_dead_letter(uid, ident)
    return ident


def deploy(web_system: WebSystem, uid: str, *agents: Json) -> None:
    """Deploy another version and wait until the worker serves it."""
    assert ask(web_system.url, "PUT", f"/v1/pipelines/{uid}", make_bundle(uid, *agents)).json[
        "served"
    ]


def add_listener(web_system: WebSystem, uid: str) -> None:
    """Add an agent that handles the message."""
    deploy(
        web_system,
        uid,
        make_agent(
            "keeper", "memory_write", {"memory_id": STORE}, senders="User", on=MISSPELT, to=MISSPELT
        ),
    )


def path(uid: str, ident: str) -> str:
    return f"/v1/dead-letters/{uid}/{quote(ident)}"


def replay(web_system: WebSystem, uid: str, ident: str, query: str = "") -> Answer:
    return web_system.post(path(uid, ident) + "/replay" + query)


def drop(web_system: WebSystem, uid: str, ident: str) -> Answer:
    return ask(web_system.url, "DELETE", path(uid, ident))


def list_dead_letters(web_system: WebSystem, query: str) -> Json:
    answer = web_system.get(f"/v1/dead-letters?{query}")
    assert answer.status == 200, answer
    return dict(answer.json)


def test_a_dead_letter_is_listed_briefly_and_shown_in_full(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    ident = make_dead_letter(web_system, uid, id="order-1", hop="3")

    (item,) = list_dead_letters(web_system, f"pipeline={uid}")["items"]
    shown = web_system.get(path(uid, ident)).json

    data = make_envelope("/write tea").decode()
    assert (item["pipeline_uid"], item["id"], item["swarm"], item["agent"]) == (
        uid,
        ident,
        MISSPELT,
        "",
    )
    assert (item["attempts"], item["bytes"], len(item["bundle"])) == (1, len(data), 64)
    assert "it has chat" in item["error"] and item["buried_at"].endswith("Z")
    assert shown == item | {"producer_id": "order-1", "hop": "3", "encoding": "utf-8", "data": data}


@pytest.mark.parametrize("data", [b"\xff\xfe\x00", b"", "té\x00\x1b[31m".encode(), b'{"args": '])
def test_a_dead_letter_shows_its_exact_bytes(web_system: WebSystem, data: bytes) -> None:
    uid = web_system.deploy()
    ident = web_system.system.client.enter_raw(uid, data)
    web_system.system.await_dead_letter(uid, ident)

    shown = web_system.get(path(uid, ident)).json

    read = b64decode(shown["data"]) if shown["encoding"] == "base64" else shown["data"].encode()
    assert (read, shown["encoding"] == "base64") == (data, data[:1] == b"\xff")


def test_pages_have_each_dead_letter_once_despite_changes(web_system: WebSystem) -> None:
    uid, other = web_system.deploy(), web_system.deploy()
    idents = [make_dead_letter(web_system, uid) for _ in range(5)]
    make_dead_letter(web_system, other)

    first = list_dead_letters(web_system, f"pipeline={uid}&limit=2")
    drop(web_system, uid, idents[0])
    drop(web_system, uid, idents[4])
    idents.append(make_dead_letter(web_system, uid))
    rest = list_dead_letters(web_system, f"pipeline={uid}&limit=3&cursor={first['next_cursor']}")

    assert [one["id"] for one in first["items"] + rest["items"]] == [*idents[:4], idents[5]]
    assert (first["total"], rest["total"], rest["next_cursor"]) == (5, 4, None)
    everything = list_dead_letters(web_system, "limit=1000")
    assert {uid, other} <= {one["pipeline_uid"] for one in everything["items"]}
    assert everything["total"] == len(everything["items"])


def test_a_successful_replay_keeps_the_id_and_deletes_the_dead_letter(
    web_system: WebSystem,
) -> None:
    uid = web_system.deploy()
    ident = make_dead_letter(web_system, uid, "tea")
    add_listener(web_system, uid)

    answer = replay(web_system, uid, ident)
    web_system.system.client.await_quiet(uid)

    assert (answer.status, answer.json) == (202, {"message_id": ident})
    assert web_system.system.contents(uid) == ["tea"]
    assert {entry.input for entry in web_system.system.client.log(uid, MISSPELT)} == {ident}
    assert [
        answer.problem[0]
        for answer in (replay(web_system, uid, ident), web_system.get(path(uid, ident)))
    ] == [404, 404]


def test_a_replay_with_wait_returns_the_results(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    ident = make_dead_letter(web_system, uid, "tea")

    failed = replay(web_system, uid, ident, "?wait=60")
    add_listener(web_system, uid)
    went_through = replay(web_system, uid, ident, "?wait=60")

    assert (failed.json["message_id"], failed.json["results"]) == (ident, [])
    assert "became a dead letter" in failed.json["reason"]
    assert went_through.json["message_id"] == ident
    assert "guid" in went_through.texts[0]


def test_ten_concurrent_replays_have_one_effect(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    ident = make_dead_letter(web_system, uid, "tea")
    add_listener(web_system, uid)

    with ThreadPoolExecutor(10) as pool:
        statuses = {
            answer.status
            for answer in pool.map(lambda _: replay(web_system, uid, ident), range(10))
        }
    web_system.system.client.await_quiet(uid)

    assert 202 in statuses and statuses <= {202, 404}
    assert web_system.system.contents(uid) == ["tea"]
    assert list_dead_letters(web_system, f"pipeline={uid}")["total"] == 0


def test_a_cascade_step_is_found_by_its_full_id(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    relay, first = (
        make_relay("all", "(.*)"),
        make_memory("write", senders="dispatch_all") | {"wf_publish_results": False},
    )
    steps = [
        make_agent(
            "keeper", "memory_write", {"memory_id": NOTES}, senders="dispatch_all", publishes=one
        )
        for one in (True, False)
    ]
    deploy(web_system, uid, relay, first, steps[0])
    web_system.system.client.enter(uid, "tea", hop="31")
    (letter,) = wait_for(
        lambda: web_system.system.dead_letters(uid), "its last step exceeds the hop limit"
    )
    deploy(web_system, uid, relay, first, steps[1])

    assert (
        "+" in letter.id
        and web_system.get(f"/v1/dead-letters/{uid}/{letter.id}").json["agent"] == "keeper_"
    )
    assert replay(web_system, uid, letter.id, "?wait=60").status == 200

    assert (web_system.system.contents(uid), web_system.system.contents(uid, "notes")) == (
        ["tea"],
        ["tea"],
    )
    assert list_dead_letters(web_system, f"pipeline={uid}")["items"] == []


def test_a_dropped_dead_letter_is_gone(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    ident = make_dead_letter(web_system, uid)

    assert (drop(web_system, uid, ident).status, drop(web_system, uid, ident).problem[0]) == (
        204,
        404,
    )
    assert web_system.system.dead_letters(uid) == []


def test_dead_letters_of_a_removed_pipeline_can_be_dropped_but_not_replayed(
    web_system: WebSystem,
) -> None:
    uid = web_system.deploy()
    ident = make_dead_letter(web_system, uid)
    web_system.system.remove(uid)

    status, detail = replay(web_system, uid, ident).problem

    assert status == 409 and "is not active" in detail
    assert list_dead_letters(web_system, f"pipeline={uid}")["total"] == 1
    assert (web_system.get(path(uid, ident)).status, drop(web_system, uid, ident).status) == (
        200,
        204,
    )


@pytest.mark.parametrize(
    "ident", ["1-0", "nothing", "'; DROP TABLE dead_letters; --", "\x00", "x" * 5000, "é"]
)
def test_an_unknown_dead_letter_is_not_found(web_system: WebSystem, ident: str) -> None:
    uid = web_system.deploy()
    kept = make_dead_letter(web_system, uid)

    answers = [
        web_system.get(path(uid, ident)),
        replay(web_system, uid, ident),
        drop(web_system, uid, ident),
        replay(web_system, "nobody", kept),
    ]

    assert [answer.problem[0] for answer in answers] == [404] * 4
    assert [letter.id for letter in web_system.system.dead_letters(uid)] == [kept]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("cursor=x", 400),
        ("cursor=-1", 400),
        ("cursor=" + "9" * 19, 400),
        ("cursor=" + "9" * 400, 400),
        ("limit=0", 400),
        ("pipline=x", 400),
        ("pipeline=nobody", 404),
    ],
)
def test_an_invalid_list_query_is_rejected(web_system: WebSystem, query: str, status: int) -> None:
    assert web_system.get(f"/v1/dead-letters?{query}").problem[0] == status


def test_a_page_of_another_origin_cannot_replay_or_drop(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    ident = make_dead_letter(web_system, uid)
    evil = {"Origin": "https://evil.example", "Content-Type": "application/json"}

    answers = [
        ask(web_system.url, "POST", path(uid, ident) + "/replay", b"{}", evil),
        ask(web_system.url, "DELETE", path(uid, ident), b"", evil),
    ]

    assert [answer.problem[0] for answer in answers] == [403, 403]
    assert [letter.attempts for letter in web_system.system.dead_letters(uid)] == [1]


def test_dead_letters_of_one_reason_are_listed_with_their_total(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    idents = [make_dead_letter(web_system, uid) for _ in range(3)]
    other = web_system.system.client.enter_raw(uid, b"no envelope")
    web_system.system.await_dead_letter(uid, other)
    reason = web_system.get(path(uid, idents[0])).json["error"]

    page = list_dead_letters(web_system, f"pipeline={uid}&limit=2&reason={quote(reason)}")
    none = list_dead_letters(web_system, f"pipeline={uid}&reason=")

    assert [one["id"] for one in page["items"]] == idents[:2]
    assert (page["total"], bool(page["next_cursor"])) == (3, True)
    assert (none["items"], none["total"]) == ([], 0)
