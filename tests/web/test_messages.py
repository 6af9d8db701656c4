"""Sending messages over HTTP, waiting for results, and reading the log."""

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from tests.support.bundles import make_agent, make_bundle, make_memory, make_uid
from tests.support.http import ask
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem


def log_path(uid: str) -> str:
    return f"/v1/pipelines/{uid}/swarms/chat/messages"


def send_numbered(web_system: WebSystem, uid: str, count: int) -> list[str]:
    """Send numbered messages without results and return their texts."""
    texts = [f"said {number}" for number in range(count)]
    web_system.system.client.enter_together(uid, texts)
    web_system.system.client.await_quiet(uid)
    return texts


def read(web_system: WebSystem, uid: str, query: str) -> tuple[list[str], str | None]:
    """Return (texts, next_cursor) of a page of the log."""
    page = web_system.get(log_path(uid) + query)
    assert page.status == 200, page
    return [item["message"]["args"][0]["text"] for item in page.json["items"]], page.json[
        "next_cursor"
    ]


def test_a_message_is_accepted_with_202_and_runs(web_system: WebSystem) -> None:
    uid = web_system.deploy()

    taken = web_system.say(uid, {"text": "/write tea"})

    assert taken.status == 202
    assert list(taken.json) == ["message_id"]
    wait_for(lambda: web_system.system.contents(uid) == ["tea"], "the record is there")


def test_a_waiting_client_gets_the_results_of_the_cascade(web_system: WebSystem) -> None:
    uid = web_system.deploy()

    answer = web_system.say(uid, {"text": "/write tea"}, query="?wait=60")

    assert answer.status == 200
    assert answer.json.keys() == {"message_id", "results"}
    assert [result["from"] for result in answer.json["results"]] == ["memory_write"]
    assert web_system.system.contents(uid) == ["tea"]


def test_publishing_turned_off_is_given_as_the_reason(web_system: WebSystem) -> None:
    uid = web_system.deploy(make_memory("write", senders="User") | {"wf_publish_results": False})

    answer = web_system.say(uid, "tea", query="?wait=60")

    assert (answer.status, answer.json["results"]) == (200, [])
    assert (
        answer.json["reason"]
        == "these agents ran but do not publish their results (wf_publish_results): memory_write_"
    )


def test_a_message_that_waits_is_given_as_the_reason(web_system: WebSystem) -> None:
    limited = make_memory("write", senders="User") | {"wf_flow": {"debounce_s": 80_000}}
    uid = web_system.deploy(limited)

    answer = web_system.say(uid, "tea", query="?wait=60")

    assert (answer.status, answer.json["results"]) == (200, [])
    assert answer.json["reason"] == "parked"


def test_no_matching_agent_is_given_as_the_reason_with_a_hint(web_system: WebSystem) -> None:
    uid = web_system.deploy()

    mistyped, plain = (
        web_system.say(uid, text, query="?wait=60") for text in ("/wirte tea", "hello")
    )

    for answer in (mistyped, plain):
        assert (answer.status, answer.json["results"]) == (200, [])
        assert answer.json["reason"] == "no agent handled this message"
    assert mistyped.json["hint"] == (
        'Unknown command "/wirte". Did you mean "/write"? '
        "Commands: /write, /read, /search, /append, /delete"
    )
    assert "hint" not in plain.json


def test_a_message_without_parts_is_an_empty_input(web_system: WebSystem) -> None:
    uid = web_system.deploy(make_memory("read", senders="User"))

    answer = web_system.say(uid, {"args": None}, query="?wait=60")

    assert [one["args"][0]["text"] for one in answer.json["results"]] == ["[]"]


def test_a_dead_letter_is_given_as_the_reason(web_system: WebSystem) -> None:
    answer = web_system.say(web_system.deploy(make_agent("plus", "add_1")), "1", query="?wait=60")

    assert (answer.status, answer.json["results"]) == (200, [])
    assert "the message became a dead letter" in answer.json["reason"]


@pytest.mark.parametrize("wait", ["nan", "-1", "1e9", "inf", "0", "soon", ""])
def test_an_invalid_wait_is_rejected_before_anything_is_sent(
    web_system: WebSystem, wait: str
) -> None:
    uid = web_system.deploy()

    status, detail = web_system.say(uid, {"text": "/write tea"}, query=f"?wait={wait}").problem

    assert status == 400
    assert "at most 60 (web.max_wait_s)" in detail
    assert web_system.system.client.redis.xlen(f"pipeline:{{{uid}}}:in") == 0


@pytest.mark.parametrize("query", ["?wiat=5", "?wait=5&x=", "?limit=5"])
def test_an_unknown_parameter_is_rejected(web_system: WebSystem, query: str) -> None:
    status, detail = web_system.say(web_system.deploy(), "x", query=query).problem

    assert status == 400
    assert "known are wait" in detail


def test_a_repeated_parameter_is_rejected(web_system: WebSystem) -> None:
    uid = web_system.deploy()

    status, detail = web_system.say(uid, "x", query="?wait=5&wait=6").problem

    assert (status, detail) == (400, "the parameter 'wait' is given 2 times; give it once")
    assert web_system.get(f"{log_path(uid)}?limit=1&limit=2").problem[0] == 400


@pytest.mark.parametrize("query", ["?", "?&", "?&&"])
def test_an_empty_query_is_ignored(web_system: WebSystem, query: str) -> None:
    assert web_system.say(web_system.deploy(), "x", query=query).status == 202


def test_a_repeated_webhook_id_has_one_effect_and_one_answer(web_system: WebSystem) -> None:
    uid = web_system.deploy()

    answers = [
        web_system.say(uid, {"text": "/write tea"}, query="?wait=60", webhook_id="msg_1")
        for _ in range(2)
    ]

    assert answers[0].json == answers[1].json
    assert answers[0].json["message_id"] == "msg_1"
    assert web_system.system.contents(uid) == ["tea"]


def test_two_concurrent_requests_with_one_webhook_id_have_one_effect(web_system: WebSystem) -> None:
    uid, gate = web_system.deploy(), threading.Barrier(8)

    def say(_: int) -> object:
        gate.wait()
        return web_system.say(
            uid, {"text": "/write tea"}, query="?wait=60", webhook_id="msg_2"
        ).json

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(say, range(8)))

    assert answers == answers[:1] * 8
    assert web_system.system.contents(uid) == ["tea"]


def test_an_idempotency_key_works_like_a_webhook_id(web_system: WebSystem) -> None:
    uid = web_system.deploy()

    ids = [
        web_system.say(uid, {"text": "/write tea"}, Idempotency_Key="key 1").json["message_id"]
        for _ in range(2)
    ]
    web_system.system.client.await_quiet(uid)

    assert ids == ["key 1", "key 1"]
    assert web_system.system.contents(uid) == ["tea"]


def test_a_repeated_id_with_another_body_is_the_first_message(web_system: WebSystem) -> None:
    uid = web_system.deploy()

    answers = [
        web_system.say(uid, {"text": f"/write {text}"}, query="?wait=60", webhook_id="msg_9")
        for text in ("tea", "coffee")
    ]

    assert answers[0].status == 200 and answers[0].body == answers[1].body
    assert web_system.system.contents(uid) == ["tea"]


def test_concurrent_waiting_clients_get_their_own_answers(web_system: WebSystem) -> None:
    uid = web_system.deploy(make_agent("plus", "add_1", senders="User"))
    say = partial(web_system.say, uid, query="?wait=60")

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(say, map(str, range(64))))

    assert [answer.texts for answer in answers] == [[str(number + 1)] for number in range(64)]


@pytest.mark.parametrize(
    ("uid", "swarm"), [("nobody", "chat"), ("", "chat"), ("a" * 4000, "chat"), ("%00", "chat")]
)
def test_an_unknown_pipeline_is_not_found(web_system: WebSystem, uid: str, swarm: str) -> None:
    assert web_system.say(uid, "x", swarm=swarm).problem[0] == 404
    assert web_system.get(f"/v1/pipelines/{uid}/swarms/{swarm}/messages").problem[0] == 404


def test_an_unknown_swarm_gets_the_list_of_swarms(web_system: WebSystem) -> None:
    uid = web_system.deploy()

    status, detail = web_system.say(uid, "x", swarm="caht").problem

    assert (status, detail) == (404, f"pipeline {uid} has no swarm 'caht'; it has chat")
    assert web_system.get(f"/v1/pipelines/{uid}/swarms/caht/messages").problem[0] == 404


def test_a_swarm_name_may_contain_a_slash(web_system: WebSystem) -> None:
    uid = make_uid()
    web_system.system.deploy(
        make_bundle(uid, make_agent("plus", "add_1", senders="User", on="a/ü b", to="a/ü b"))
    )

    assert web_system.say(uid, "1", swarm="a%2F%C3%BC%20b", query="?wait=60").texts == ["2"]


def test_pages_of_the_log_have_no_gap(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    texts = send_numbered(web_system, uid, 25)

    found, cursor = read(web_system, uid, "?limit=10")
    while cursor:
        page, cursor = read(web_system, uid, f"?limit=10&cursor={cursor}")
        found += page

    assert found == texts
    assert web_system.get(log_path(uid)).json["total"] == 25


def test_the_log_can_be_read_backwards(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    texts = send_numbered(web_system, uid, 25)

    newest, cursor = read(web_system, uid, "?order=desc&limit=20")
    oldest, end = read(web_system, uid, f"?order=desc&limit=20&cursor={cursor}")

    assert newest + oldest == texts[::-1]
    assert end is None


def test_foreign_entries_in_the_log_shorten_no_page(web_system: WebSystem) -> None:
    uid, log = web_system.deploy(), web_system.system.client.redis
    send_numbered(web_system, uid, 5)
    for fields in (
        {"note": "x"},
        {"mid": 'a"b', "data": "{}"},
        {"mid": "a", "data": "{"},
        {"mid": "a"},
    ) * 3:
        log.xadd(f"swarm:{{{uid}}}:chat", fields)
    send_numbered(web_system, uid, 5)

    first, cursor = read(web_system, uid, "?limit=8")

    assert len(first) == 8
    assert read(web_system, uid, f"?limit=8&cursor={cursor}") == (["said 3", "said 4"], None)
    assert len(read(web_system, uid, "?limit=10&order=desc")[0]) == 10


def test_a_log_item_has_cursor_mid_and_the_exact_message(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    message = {
        "from": "Ann",
        "id": "x",
        "args": [{"text": "hello", "mood": {"deep": [1, None]}}, {"text": "and more"}],
    }

    taken = web_system.say(uid, message, query="?wait=60").json["message_id"]

    (item,) = web_system.get(log_path(uid)).json["items"]
    assert item.keys() == {"cursor", "mid", "message"}
    assert item["mid"].startswith(f"{taken}.0~")
    assert item["message"] == message


@pytest.mark.parametrize(
    "query",
    [
        "cursor=x",
        "cursor=5",
        "cursor=-",
        "cursor=99999999999999999999-0",
        "cursor=%D9%A5-0",
        "cursor=1-1%00",
        "limit=0",
        "limit=1001",
        "limit=-1",
        "limit=x",
        "limit=",
        "limit=001000000",
        "limit=%D9%A5",
        "order=up",
        "order=",
        "what=1",
    ],
)
def test_an_invalid_log_query_is_rejected(web_system: WebSystem, query: str) -> None:
    assert web_system.get(f"{log_path(web_system.deploy())}?{query}").problem[0] == 400


def test_a_page_after_the_end_is_empty(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    send_numbered(web_system, uid, 1)

    assert read(web_system, uid, "?cursor=9223372036854775807-9223372036854775807") == ([], None)
    assert read(web_system, uid, "?order=desc&cursor=0-0") == ([], None)


def test_head_answers_like_get_without_a_body(web_system: WebSystem) -> None:
    path = log_path(web_system.deploy())

    asked, got = ask(web_system.url, "HEAD", path), web_system.get(path)

    assert (asked.status, asked.body) == (200, b"")
    assert asked.headers["content-length"] == got.headers["content-length"]


EMPTY = [b"{}", b'{"args": null}', b'{"text": null}', b'{"from": "Ann"}']


def test_a_message_without_a_text_is_empty_on_every_path(web_system: WebSystem) -> None:
    answers = {
        "write": '{"error":"no content"}',
        "search": "[]",
        "delete": '{"skipped":"no query"}',
    }
    args = {"memory_id": "instances/${pipeline_uid}/memories"}
    uid = web_system.deploy(
        *[make_agent(name, f"memory_{name}", args, on=name, to="out") for name in answers]
    )
    client, out = web_system.system.client, []
    for name, answer in answers.items():
        for body in EMPTY:
            path = f"/v1/pipelines/{uid}/swarms/{name}/messages?wait=60"
            assert web_system.post(path, body).texts == [answer], body
            assert web_system.webhook(uid, f"{name}_", body, query="?wait=60").texts == [answer]
            client.enter_raw(uid, body, swarm=name)
            client.publish(uid, body, name)
            out += [answer] * 4
    wait_for(lambda: len(client.log(uid, "out")) == len(out), "all are answered")
    assert sorted(message.text for message in client.log(uid, "out")) == sorted(out)
    assert web_system.system.dead_letters(uid) == []
