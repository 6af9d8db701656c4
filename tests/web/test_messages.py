"""Sending messages over HTTP, waiting for results, and reading the log."""

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from tests.support.bundles import make_agent, make_bundle, make_memory, make_uid
from tests.support.http import ask
from tests.support.served import Served
from tests.support.waiting import wait_for


def log_path(uid: str) -> str:
    return f"/v1/pipelines/{uid}/swarms/chat/messages"


def send_numbered(served: Served, uid: str, count: int) -> list[str]:
    """Send numbered messages without results and return their texts."""
    texts = [f"said {number}" for number in range(count)]
    served.house.client.enter_together(uid, texts)
    served.house.client.await_quiet(uid)
    return texts


def read(served: Served, uid: str, query: str) -> tuple[list[str], str | None]:
    """Return (texts, next_cursor) of a page of the log."""
    page = served.get(log_path(uid) + query)
    assert page.status == 200, page
    return [item["message"]["args"][0]["text"] for item in page.json["items"]], page.json[
        "next_cursor"
    ]


def test_a_message_is_accepted_with_202_and_runs(served: Served) -> None:
    uid = served.deploy()

    taken = served.say(uid, {"text": "/write tea"})

    assert taken.status == 202
    assert list(taken.json) == ["message_id"]
    wait_for(lambda: served.house.contents(uid) == ["tea"], "the record is there")


def test_a_waiting_client_gets_the_results_of_the_cascade(served: Served) -> None:
    uid = served.deploy()

    answer = served.say(uid, {"text": "/write tea"}, query="?wait=60")

    assert answer.status == 200
    assert answer.json.keys() == {"message_id", "results"}
    assert [result["from"] for result in answer.json["results"]] == ["memory_write"]
    assert served.house.contents(uid) == ["tea"]


def test_publishing_turned_off_is_given_as_the_reason(served: Served) -> None:
    uid = served.deploy(make_memory("write", hears="User") | {"wf_publish_results": False})

    answer = served.say(uid, "tea", query="?wait=60")

    assert (answer.status, answer.json["results"]) == (200, [])
    assert (
        answer.json["reason"]
        == "these agents ran but do not publish their results (wf_publish_results): memory_write_"
    )


def test_no_matching_agent_is_given_as_the_reason_with_a_hint(served: Served) -> None:
    uid = served.deploy()

    mistyped, plain = (served.say(uid, text, query="?wait=60") for text in ("/wirte tea", "hello"))

    for answer in (mistyped, plain):
        assert (answer.status, answer.json["results"]) == (200, [])
        assert answer.json["reason"] == "no agent handled this message"
    assert mistyped.json["hint"] == (
        'Unknown command "/wirte". Did you mean "/write"? '
        "Commands: /write, /read, /search, /append, /delete"
    )
    assert "hint" not in plain.json


def test_a_message_without_parts_is_an_empty_input(served: Served) -> None:
    uid = served.deploy(make_memory("read", hears="User"))

    answer = served.say(uid, {"args": []}, query="?wait=60")

    assert [one["args"][0]["text"] for one in answer.json["results"]] == ["[]"]


def test_a_dead_letter_is_given_as_the_reason(served: Served) -> None:
    answer = served.say(served.deploy(make_agent("plus", "add_1")), "1", query="?wait=60")

    assert (answer.status, answer.json["results"]) == (200, [])
    assert "the message became a dead letter" in answer.json["reason"]


@pytest.mark.parametrize("wait", ["nan", "-1", "1e9", "inf", "0", "soon", ""])
def test_an_invalid_wait_is_rejected_before_anything_is_sent(served: Served, wait: str) -> None:
    uid = served.deploy()

    status, detail = served.say(uid, {"text": "/write tea"}, query=f"?wait={wait}").problem

    assert status == 400
    assert "at most 60 (web.max_wait_s)" in detail
    assert served.house.client.redis.xlen(f"pipeline:{{{uid}}}:in") == 0


@pytest.mark.parametrize("query", ["?wiat=5", "?wait=5&x=", "?limit=5"])
def test_an_unknown_parameter_is_rejected(served: Served, query: str) -> None:
    status, detail = served.say(served.deploy(), "x", query=query).problem

    assert status == 400
    assert "known are wait" in detail


def test_a_repeated_parameter_is_rejected(served: Served) -> None:
    uid = served.deploy()

    status, detail = served.say(uid, "x", query="?wait=5&wait=6").problem

    assert (status, detail) == (400, "the parameter 'wait' is given 2 times; give it once")
    assert served.get(f"{log_path(uid)}?limit=1&limit=2").problem[0] == 400


@pytest.mark.parametrize("query", ["?", "?&", "?&&"])
def test_an_empty_query_is_ignored(served: Served, query: str) -> None:
    assert served.say(served.deploy(), "x", query=query).status == 202


def test_a_repeated_webhook_id_has_one_effect_and_one_answer(served: Served) -> None:
    uid = served.deploy()

    answers = [
        served.say(uid, {"text": "/write tea"}, query="?wait=60", webhook_id="msg_1")
        for _ in range(2)
    ]

    assert answers[0].json == answers[1].json
    assert answers[0].json["message_id"] == "msg_1"
    assert served.house.contents(uid) == ["tea"]


def test_two_concurrent_requests_with_one_webhook_id_have_one_effect(served: Served) -> None:
    uid, gate = served.deploy(), threading.Barrier(8)

    def say(_: int) -> object:
        gate.wait()
        return served.say(uid, {"text": "/write tea"}, query="?wait=60", webhook_id="msg_2").json

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(say, range(8)))

    assert answers == answers[:1] * 8
    assert served.house.contents(uid) == ["tea"]


def test_an_idempotency_key_works_like_a_webhook_id(served: Served) -> None:
    uid = served.deploy()

    ids = [
        served.say(uid, {"text": "/write tea"}, Idempotency_Key="key 1").json["message_id"]
        for _ in range(2)
    ]
    served.house.client.await_quiet(uid)

    assert ids == ["key 1", "key 1"]
    assert served.house.contents(uid) == ["tea"]


def test_a_repeated_id_with_another_body_is_the_first_message(served: Served) -> None:
    uid = served.deploy()

    answers = [
        served.say(uid, {"text": f"/write {text}"}, query="?wait=60", webhook_id="msg_9")
        for text in ("tea", "coffee")
    ]

    assert answers[0].status == 200 and answers[0].body == answers[1].body
    assert served.house.contents(uid) == ["tea"]


def test_concurrent_waiting_clients_get_their_own_answers(served: Served) -> None:
    uid = served.deploy(make_agent("plus", "add_1", hears="User"))
    say = partial(served.say, uid, query="?wait=60")

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(say, map(str, range(64))))

    assert [answer.texts for answer in answers] == [[str(number + 1)] for number in range(64)]


@pytest.mark.parametrize(
    ("uid", "swarm"), [("nobody", "chat"), ("", "chat"), ("a" * 4000, "chat"), ("%00", "chat")]
)
def test_an_unknown_pipeline_is_not_found(served: Served, uid: str, swarm: str) -> None:
    assert served.say(uid, "x", swarm=swarm).problem[0] == 404
    assert served.get(f"/v1/pipelines/{uid}/swarms/{swarm}/messages").problem[0] == 404


def test_an_unknown_swarm_gets_the_list_of_swarms(served: Served) -> None:
    uid = served.deploy()

    status, detail = served.say(uid, "x", swarm="caht").problem

    assert (status, detail) == (404, f"pipeline {uid} has no swarm 'caht'; it has chat")
    assert served.get(f"/v1/pipelines/{uid}/swarms/caht/messages").problem[0] == 404


def test_a_swarm_name_may_contain_a_slash(served: Served) -> None:
    uid = make_uid()
    served.house.deploy(
        make_bundle(uid, make_agent("plus", "add_1", hears="User", on="a/ü b", to="a/ü b"))
    )

    assert served.say(uid, "1", swarm="a%2F%C3%BC%20b", query="?wait=60").texts == ["2"]


def test_pages_of_the_log_have_no_gap(served: Served) -> None:
    uid = served.deploy()
    texts = send_numbered(served, uid, 25)

    found, cursor = read(served, uid, "?limit=10")
    while cursor:
        page, cursor = read(served, uid, f"?limit=10&cursor={cursor}")
        found += page

    assert found == texts
    assert served.get(log_path(uid)).json["total"] == 25


def test_the_log_can_be_read_backwards(served: Served) -> None:
    uid = served.deploy()
    texts = send_numbered(served, uid, 25)

    newest, cursor = read(served, uid, "?order=desc&limit=20")
    oldest, end = read(served, uid, f"?order=desc&limit=20&cursor={cursor}")

    assert newest + oldest == texts[::-1]
    assert end is None


def test_foreign_entries_in_the_log_shorten_no_page(served: Served) -> None:
    uid, log = served.deploy(), served.house.client.redis
    send_numbered(served, uid, 5)
    for fields in (
        {"note": "x"},
        {"mid": 'a"b', "data": "{}"},
        {"mid": "a", "data": "{"},
        {"mid": "a"},
    ) * 3:
        log.xadd(f"swarm:{{{uid}}}:chat", fields)
    send_numbered(served, uid, 5)

    first, cursor = read(served, uid, "?limit=8")

    assert len(first) == 8
    assert read(served, uid, f"?limit=8&cursor={cursor}") == (["said 3", "said 4"], None)
    assert len(read(served, uid, "?limit=10&order=desc")[0]) == 10


def test_a_log_item_has_cursor_mid_and_the_exact_message(served: Served) -> None:
    uid = served.deploy()
    message = {
        "from": "Ann",
        "id": "x",
        "args": [{"text": "hello", "mood": {"deep": [1, None]}}, {"text": "and more"}],
    }

    taken = served.say(uid, message, query="?wait=60").json["message_id"]

    (item,) = served.get(log_path(uid)).json["items"]
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
def test_an_invalid_log_query_is_rejected(served: Served, query: str) -> None:
    assert served.get(f"{log_path(served.deploy())}?{query}").problem[0] == 400


def test_a_page_after_the_end_is_empty(served: Served) -> None:
    uid = served.deploy()
    send_numbered(served, uid, 1)

    assert read(served, uid, "?cursor=9223372036854775807-9223372036854775807") == ([], None)
    assert read(served, uid, "?order=desc&cursor=0-0") == ([], None)


def test_head_answers_like_get_without_a_body(served: Served) -> None:
    path = log_path(served.deploy())

    asked, got = ask(served.url, "HEAD", path), served.get(path)

    assert (asked.status, asked.body) == (200, b"")
    assert asked.headers["content-length"] == got.headers["content-length"]
