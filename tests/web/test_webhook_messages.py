"""Webhooks become messages: the table of docs/http.md, texts, events and sizes."""

import gzip
import json
from typing import Any

import pytest

from memrelay.bus.codec import decode
from memrelay.bus.message import JSON, PLAIN
from memrelay.pipelines.check import CheckedAgent, check
from memrelay.pipelines.expressions import compile_expression
from memrelay.web.server.errors import TooLarge, Unprocessable
from memrelay.web.server.options import WebOptions
from memrelay.web.webhooks.body import read_webhook_body
from memrelay.web.webhooks.envelopes import Webhook, make_envelopes
from tests.support.bundles import Json, make_bundle, make_memory, make_uid
from tests.support.web_system import WebSystem
from tests.web.test_webhooks import TOKEN, kilroy, make_chat, make_hook

NOW_MS = 1_771_000_000_000
OPTIONS = WebOptions(message_bytes=2_000)


def make_checked(agent: Json) -> CheckedAgent:
    return check(json.dumps(make_bundle(make_uid(), agent)).encode()).accepted().agents[0]


WRITER = make_checked(make_memory("write", senders="nobody"))
CHAT = make_checked(make_chat())


def send(
    body: Any, agent: CheckedAgent = WRITER, content_type: str = "", **options: Any
) -> list[dict[str, Any]]:
    """Return the envelopes of a body."""
    raw = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
    webhook = Webhook(read_webhook_body(raw, content_type, OPTIONS), NOW_MS, **options)
    envelopes = make_envelopes(agent, webhook, OPTIONS)
    for envelope in envelopes:
        decode(envelope, OPTIONS.message_bytes)
    return [json.loads(envelope) for envelope in envelopes]


ENVELOPES: list[Json] = [
    {"args": [{"text": "x"}]},
    {"from": "ada", "id": "a1", "args": [{"text": "x", "type": None, "own": 1}], "mid": "m"},
]
WITH_OTHER_FIELDS: list[Json] = [
    {"args": [{"text": "x"}], "tid": "t", "targs": {}},
    {"args": [{"text": "x"}], "status": "failed"},
]
OTHER_ARGS: list[Json] = [
    {"args": []},
    {"args": ["a"], "text": "x"},
    {"status": "failed", "args": [{"name": "x"}]},
    {"args": [{"text": "x"}, {"text": 5}]},
]
MESSAGES: list[Json] = [
    {"text": "x"},
    {"text": "x", "from": "ada", "id": "7", "username": "Ada", "type": None, "timestamp": 5},
]
EMPTY: list[Any] = [None, {}, {"text": None}, {"text": ""}, {"from": "ada"}]
EMPTY += [{"from": "ada", "id": "a", "args": None}]
OTHER_JSON: list[Any] = [
    {"text": "CPU 97 %", "host": "db1"},
    {"text": "", "title": "x"},
    {"text": "Buy milk", "id": 17, "done": False},
    {"text": "x", "from": {"id": 7}},
    {"id": "evt_1", "type": "invoice.paid"},
    {"id": "evt_1"},
    {"type": "heartbeat", "timestamp": 1},
    [1, {"text": "x"}],
    "text",
    5,
]


def is_whole_json(envelope: dict[str, Any], body: Any) -> bool:
    (part,) = envelope["args"]
    return part["type"] == JSON and json.loads(part["text"]) == body


@pytest.mark.parametrize("body", ENVELOPES)
@pytest.mark.parametrize("is_kilroy", [False, True])
def test_a_whole_envelope_is_one(body: Json, is_kilroy: bool) -> None:
    (envelope,) = send(body, is_kilroy=is_kilroy)
    assert envelope == {"from": "webhook", "id": ""} | body


@pytest.mark.parametrize("body", WITH_OTHER_FIELDS)
def test_an_envelope_with_other_fields_is_one_on_kilroys_path_only(body: Json) -> None:
    (envelope,) = send(body, is_kilroy=True)
    assert envelope["args"] == [{"text": "x"}]
    assert is_whole_json(send(body)[0], body)


@pytest.mark.parametrize("body", [*OTHER_ARGS, *OTHER_JSON[4:]])
@pytest.mark.parametrize("is_kilroy", [False, True])
def test_other_json_is_kept_whole(body: Any, is_kilroy: bool) -> None:
    assert is_whole_json(send(body, is_kilroy=is_kilroy)[0], body)


@pytest.mark.parametrize("body", OTHER_JSON[:4])
def test_a_message_with_other_fields_is_kept_whole(body: Json) -> None:
    assert is_whole_json(send(body)[0], body)


@pytest.mark.parametrize("body", MESSAGES)
@pytest.mark.parametrize("is_kilroy", [False, True])
def test_a_message_keeps_its_fields(body: Json, is_kilroy: bool) -> None:
    (envelope,) = send(body, is_kilroy=is_kilroy)
    assert envelope["from"] == body.get("from", "webhook")
    (part,) = envelope["args"]
    assert part["text"] == "x"
    assert part["timestamp"] == body.get("timestamp", NOW_MS)


@pytest.mark.parametrize("body", EMPTY)
@pytest.mark.parametrize("is_kilroy", [False, True])
def test_an_empty_body_is_an_empty_message(body: Any, is_kilroy: bool) -> None:
    (envelope,) = send(body, is_kilroy=is_kilroy)
    assert envelope["from"] == ("ada" if body and "from" in body else "webhook")
    assert envelope["args"][0]["text"] == ""


def test_kilroys_path_refuses_an_id_of_another_type() -> None:
    with pytest.raises(Unprocessable, match="`id` of a message"):
        send({"text": "x", "id": 5}, is_kilroy=True)


def test_the_part_has_the_text_once_and_the_metadata_apart() -> None:
    body = {"event": "own", "type": "own", "text": "t", "timestamp": "own", "webhook": 1}
    metadata = {"event": "issues", "sender": "github", "delivery_id": "d1"}
    (envelope,) = send(body, metadata=metadata)
    assert envelope["args"] == [
        {
            "text": json.dumps(body),
            "type": JSON,
            "username": "webhook",
            "timestamp": NOW_MS,
            "webhook": metadata,
        }
    ]
    assert send(b"\xff")[0]["args"][0]["webhook"] == {"encoding": "base64"}


def test_a_chat_gets_the_field_text() -> None:
    body = {"token": "x", "text": "/write tea", "user_name": "ada"}
    assert send(body, CHAT)[0]["args"][0]["text"] == "/write tea"
    assert is_whole_json(send({"token": "x", "text": 5}, CHAT)[0], {"token": "x", "text": 5})


@pytest.mark.parametrize(
    ("body", "text", "kind"),
    [
        ({"message": {"text": "/write tea"}}, "/write tea", PLAIN),
        ({"message": {"text": {"a": "ü"}}}, '{"a":"ü"}', JSON),
        ({"message": {"text": 5}}, "5", JSON),
        ({"other": 1}, '{"other": 1}', JSON),
        ({"message": {"text": ""}}, '{"message": {"text": ""}}', JSON),
    ],
)
def test_an_expression_selects_the_text(body: Json, text: str, kind: str) -> None:
    agent = make_checked(make_hook(wf_webhook_text="message.text"))
    part = send(body, agent)[0]["args"][0]
    assert (part["text"], part["type"]) == (text, kind)
    if text != json.dumps(body):
        assert json.loads(part["webhook"]["body"]) == body


def test_the_expression_of_the_agent_goes_before_that_of_its_sender() -> None:
    sender = compile_expression("b")
    assert send({"a": "1", "b": "2"}, text=sender)[0]["args"][0]["text"] == "2"
    agent = make_checked(make_hook(wf_webhook_text="a"))
    assert send({"a": "1", "b": "2"}, agent, text=sender)[0]["args"][0]["text"] == "1"


def test_each_event_of_a_body_becomes_a_message() -> None:
    agent = make_checked(make_hook(wf_webhook_each="events[]", wf_webhook_text="text"))
    envelopes = send({"events": [{"text": "one"}, {"id": 2}]}, agent)
    assert [one["args"][0]["text"] for one in envelopes] == ["one", '{"id":2}']
    for body in ({"events": []}, {"other": 1}):
        assert is_whole_json(send(body, agent)[0], body)
    with pytest.raises(Unprocessable, match="1001 events"):
        send(
            {"events": [1] * 1001},
            make_checked(make_hook(wf_webhook_each="events", wf_webhook_bytes=5000)),
        )


def test_a_body_of_quotes_fits_and_a_longer_one_is_refused() -> None:
    quotes = b'["' + b'","' * 660 + b'"]'
    assert json.loads(send(quotes)[0]["args"][0]["text"]) == [""] * 661
    with pytest.raises(TooLarge, match="2001 bytes"):
        send(b"x" * 2001)
    small = make_checked(make_hook(wf_webhook_bytes=10))
    with pytest.raises(TooLarge, match="this webhook allows 10"):
        send(b"x" * 11, small)
    large = make_checked(make_hook(wf_webhook_bytes=5000))
    raw = Webhook(read_webhook_body(b"x" * 5000, "", OPTIONS), NOW_MS)
    assert len(make_envelopes(large, raw, OPTIONS)) == 1


def test_a_deploy_warns_about_a_pattern_that_no_webhook_matches() -> None:
    relay = {
        "agent_class": "wf_agent",
        "agent_alias": "relay",
        "agent_name": "relay",
        "agent_rec_swarm": "",
        "agent_send_swarm": "chat",
        "wf_diagram_webhook": "regex_match",
        "wf_publish_results": True,
        "wf_webhook_args": {"pattern": "^/write"},
        "wf_webhook_token": "env:HOOK_TOKEN",
    }

    def warnings(**keys: object) -> str:
        return str(check(json.dumps(make_bundle(make_uid(), relay | keys)).encode()).warnings)

    assert "wf_webhook_text" in warnings()
    assert "wf_webhook_text" not in warnings(wf_webhook_text="text")
    assert "wf_webhook_text" not in warnings(wf_webhook_token="")
    assert "wf_webhook_text" not in warnings(wf_webhook_args={"pattern": "write"})
    for sender in ("slack", "telegram"):
        assert "wf_webhook_text" not in warnings(wf_webhook_sender=sender)
    assert "wf_webhook_text" in warnings(wf_webhook_sender="github")
    networks = {"wf_webhook_token": "", "wf_webhook_networks": ["203.0.113.0/24"]}
    assert "wf_webhook_text" in warnings(wf_webhook_sender="grafana", **networks)


def test_a_webhook_may_be_compressed(web_system: WebSystem) -> None:
    uid = web_system.deploy(make_hook(""))
    body = gzip.compress(b'{"title": "M\\u00fcller"}')

    def post(raw: bytes, encoding: str = "gzip") -> int:
        path = f"/webhooks/{uid}/memory_write_?wait=60"
        return web_system.post(path, raw, Content_Encoding=encoding).status

    assert post(body) == 200
    assert web_system.system.contents(uid) == ['{"title": "Müller"}']
    statuses = [post(b"no gzip"), post(body[:-4]), post(gzip.compress(b"x" * 9_000_000))]
    assert statuses == [400, 400, 413]
    assert post(body, "br") == 415
    assert web_system.say(uid, body, Content_Encoding="gzip").status == 415


def test_events_of_one_body_are_written_once_each(web_system: WebSystem) -> None:
    uid = web_system.deploy(make_hook("", wf_webhook_each="@"))
    for _ in range(2):
        answer = web_system.webhook(uid, "memory_write_", '["one","two"]', webhook_id="d1")
        assert (answer.status, answer.json) == (202, {"message_id": "d1"})
    web_system.webhook(uid, "memory_write_", "last", query="?wait=60")
    assert web_system.system.contents(uid) == ["one", "two", "last"]


def test_a_large_body_full_of_quotes_is_stored(web_system: WebSystem) -> None:
    uid = web_system.deploy(make_hook("", wf_webhook_bytes=3_000_000))
    body = json.dumps([""] * 700_000)
    answer = web_system.webhook(uid, "memory_write_", body, query="?wait=60")
    assert answer.status == 200
    assert web_system.system.contents(uid) == [body]


def test_kilroys_path_keeps_any_json(web_system: WebSystem) -> None:
    uid = web_system.deploy(make_hook())
    bodies = ['{"args": ["make"], "status": "failed"}', '{"id": "evt_1", "object": "event"}']
    bodies += [json.dumps({f"k{number}": number for number in range(11_000)})]
    for body in bodies:
        assert kilroy(web_system, "memory_write_", token=TOKEN, body=body).status == 200
    kilroy(web_system, "memory_write_", body='{"tid": "t", "args": [{"text": "tea"}]}')
    assert web_system.system.contents(uid) == [*bodies, "tea"]
