"""The WebSocket of events: changes of recipes and sources, and live events of all processes."""

import json
from typing import Any

import pytest

from tests.support.http import ask
from tests.support.listener import TEXT, Listener
from tests.support.web_system import WebSystem

PATH = "/persistent-memory/events"
RECIPE = {"id": "p", "label": "P"}


def listen(web_system: WebSystem, uid: str, query: str = "") -> Listener:
    return Listener(web_system.url, uid, query, path=f"/p/{uid}{PATH}")


def call(web_system: WebSystem, uid: str, path: str, body: Any, method: str = "POST") -> Any:
    answer = ask(web_system.url, method, f"/v1/pipelines/{uid}/{path}", body)
    assert answer.status < 300, answer
    return answer.json if answer.body else None


def add_recipe(web_system: WebSystem, uid: str, **changes: Any) -> None:
    call(web_system, uid, "recipes", {"definition": RECIPE | changes})


def names(events: list[dict[str, Any]]) -> list[str]:
    return [event["event"] for event in events]


def test_changes_of_a_recipe_arrive_once_and_in_order(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    add_recipe(web_system, uid, id="before")
    with listen(web_system, uid) as listener:
        add_recipe(web_system, uid)
        call(web_system, uid, "recipes/p", b"", "DELETE")
        add_recipe(web_system, uid)
        call(web_system, uid, "recipes/p", {"definition": RECIPE}, "PATCH")
        received = [listener.receive() for _ in range(4)]
        add_recipe(web_system, uid, id="last")
        following = listener.receive()

    assert names(received) == [
        f"persistentMemory:{verb}" for verb in ("created", "deleted", "created", "updated")
    ]
    assert [event["data"] for event in received] == [
        {"id": "p", "label": "P", "projectId": uid}
    ] * 4
    assert following["data"]["id"] == "last"


def test_a_listener_continues_after_the_cursor_of_an_event(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    with listen(web_system, uid) as listener:
        add_recipe(web_system, uid, id="a")
        cursor = listener.receive()["cursor"]
    for id_ in ("b", "c"):
        add_recipe(web_system, uid, id=id_)

    with listen(web_system, uid, f"?after={cursor}") as listener:
        add_recipe(web_system, uid, id="d")
        assert [listener.receive()["data"]["id"] for _ in range(3)] == ["b", "c", "d"]


def test_events_of_sources_carry_the_object(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    pair = {"instance": "app", "namespace": "n", "value": {"a": 1}}
    one = {"stream_id": "s", "event_type": "t", "payload": {"ms": 1}}
    with listen(web_system, uid) as listener:
        call(web_system, uid, "kv/k/set", pair | {"auto_create": True})
        created, changed = listener.receive(), listener.receive()
        append = {"instance": "log", "events": [one], "auto_create": True}
        call(web_system, uid, "events/append", append)
        received = [listener.receive(), listener.receive()]

    assert (created["event"], created["data"]["id"]) == ("kvStore:instance-created", "app")
    assert "sort" not in created["data"] and "eventCount" not in created["data"]
    assert changed["event"] == "kvStore:record-set"
    assert changed["data"] == {
        "instanceId": "app",
        "namespace": "n",
        "key": "k",
        "value": {"a": 1},
    }
    assert names(received) == ["eventLog:instance-created", "eventLog:event-appended"]
    assert received[1]["data"]["payload"] == {"ms": 1}
    assert received[1]["data"]["instanceId"] == "log"


def test_a_live_event_reaches_the_listeners_of_its_pipeline(web_system: WebSystem) -> None:
    uid, other = web_system.deploy(), web_system.deploy()
    event = {"event": "contextAssembly:started", "data": ["p"], "timestamp": "2026-11-01T10:00:00Z"}
    with listen(web_system, uid) as listener, listen(web_system, other) as of_other:
        web_system.system.client.redis.publish(f"live:{{{uid}}}", json.dumps(event))
        assert listener.receive() == event
        of_other.send(TEXT, b"ping")
        assert of_other.receive() == {"event": "pong"}


@pytest.mark.parametrize("ping", [b"ping", b'{"event":"ping"}', b'{"type": "ping"}'])
def test_a_ping_is_answered_and_other_texts_are_not(web_system: WebSystem, ping: bytes) -> None:
    uid = web_system.deploy()
    with listen(web_system, uid) as listener:
        listener.send(TEXT, b"hello")
        listener.send(TEXT, ping)
        assert listener.receive() == {"event": "pong"}
        add_recipe(web_system, uid)
        assert listener.receive()["event"] == "persistentMemory:created"


@pytest.mark.parametrize(
    ("query", "status"), [("?after=x", 400), ("?from=1", 400), ("?after=99999", 422)]
)
def test_an_invalid_cursor_opens_no_websocket(
    web_system: WebSystem, query: str, status: int
) -> None:
    uid = web_system.deploy()
    with listen(web_system, uid, query) as listener:
        assert listener.refusal.status == status
        assert listener.refusal.json["success"] is False
    assert ask(web_system.url, "GET", f"/p/{uid}{PATH}").status == 400
    assert ask(web_system.url, "GET", f"/p/nobody{PATH}").status == 404
