"""The WebSocket of events: changes of recipes and sources, and live events of all processes."""

import json
from typing import Any

import pytest

from tests.support.http import ask
from tests.support.listener import TEXT, Listener
from tests.support.served import Served

PATH = "/persistent-memory/events"
RECIPE = {"id": "p", "label": "P"}


def listen(served: Served, uid: str, query: str = "") -> Listener:
    return Listener(served.url, uid, query, path=f"/p/{uid}{PATH}")


def call(served: Served, uid: str, path: str, body: Any, method: str = "POST") -> Any:
    answer = ask(served.url, method, f"/v1/pipelines/{uid}/{path}", body)
    assert answer.status < 300, answer
    return answer.json if answer.body else None


def add_recipe(served: Served, uid: str, **changes: Any) -> None:
    call(served, uid, "recipes", {"definition": RECIPE | changes})


def names(events: list[dict[str, Any]]) -> list[str]:
    return [event["event"] for event in events]


def test_changes_of_a_recipe_arrive_once_and_in_order(served: Served) -> None:
    uid = served.deploy()
    add_recipe(served, uid, id="before")
    with listen(served, uid) as listener:
        add_recipe(served, uid)
        call(served, uid, "recipes/p", b"", "DELETE")
        add_recipe(served, uid)
        call(served, uid, "recipes/p", {"definition": RECIPE}, "PATCH")
        received = [listener.hear() for _ in range(4)]
        add_recipe(served, uid, id="last")
        following = listener.hear()

    assert names(received) == [
        f"persistentMemory:{verb}" for verb in ("created", "deleted", "created", "updated")
    ]
    assert [event["data"] for event in received] == [
        {"id": "p", "label": "P", "projectId": uid}
    ] * 4
    assert following["data"]["id"] == "last"


def test_a_listener_continues_after_the_cursor_of_an_event(served: Served) -> None:
    uid = served.deploy()
    with listen(served, uid) as listener:
        add_recipe(served, uid, id="a")
        cursor = listener.hear()["cursor"]
    for id_ in ("b", "c"):
        add_recipe(served, uid, id=id_)

    with listen(served, uid, f"?after={cursor}") as listener:
        add_recipe(served, uid, id="d")
        assert [listener.hear()["data"]["id"] for _ in range(3)] == ["b", "c", "d"]


def test_events_of_sources_carry_the_object(served: Served) -> None:
    uid = served.deploy()
    pair = {"instance": "app", "namespace": "n", "value": {"a": 1}}
    one = {"stream_id": "s", "event_type": "t", "payload": {"ms": 1}}
    with listen(served, uid) as listener:
        call(served, uid, "kv/k/set", pair | {"auto_create": True})
        created, changed = listener.hear(), listener.hear()
        append = {"instance": "log", "events": [one], "auto_create": True}
        call(served, uid, "events/append", append)
        received = [listener.hear(), listener.hear()]

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


def test_a_live_event_reaches_the_listeners_of_its_pipeline(served: Served) -> None:
    uid, other = served.deploy(), served.deploy()
    event = {"event": "contextAssembly:started", "data": ["p"], "timestamp": "2026-11-01T10:00:00Z"}
    with listen(served, uid) as listener, listen(served, other) as of_other:
        served.house.client.redis.publish(f"live:{{{uid}}}", json.dumps(event))
        assert listener.hear() == event
        of_other.send(TEXT, b"ping")
        assert of_other.hear() == {"event": "pong"}


@pytest.mark.parametrize("ping", [b"ping", b'{"event":"ping"}', b'{"type": "ping"}'])
def test_a_ping_is_answered_and_other_texts_are_not(served: Served, ping: bytes) -> None:
    uid = served.deploy()
    with listen(served, uid) as listener:
        listener.send(TEXT, b"hello")
        listener.send(TEXT, ping)
        assert listener.hear() == {"event": "pong"}
        add_recipe(served, uid)
        assert listener.hear()["event"] == "persistentMemory:created"


@pytest.mark.parametrize(
    ("query", "status"), [("?after=x", 400), ("?from=1", 400), ("?after=99999", 422)]
)
def test_an_invalid_cursor_opens_no_websocket(served: Served, query: str, status: int) -> None:
    uid = served.deploy()
    with listen(served, uid, query) as listener:
        assert listener.refusal.status == status
        assert listener.refusal.json["success"] is False
    assert ask(served.url, "GET", f"/p/{uid}{PATH}").status == 400
    assert ask(served.url, "GET", f"/p/nobody{PATH}").status == 404
