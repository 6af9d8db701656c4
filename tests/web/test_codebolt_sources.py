"""Key-value stores and event logs over Codebolt's paths."""

from typing import Any

import pytest

from tests.support.codebolt import Codebolt
from tests.support.web_system import WebSystem

KV, LOG = "/kvstore", "/eventlog"
THEME = {
    "instanceId": "app",
    "namespace": "prefs",
    "key": "theme",
    "value": "dark",
    "autoCreateInstance": True,
}
LOGIN = {"stream_id": "u1", "event_type": "login", "payload": {"ms": 5}}


@pytest.fixture
def codebolt(web_system: WebSystem) -> Codebolt:
    return Codebolt(web_system, web_system.deploy())


@pytest.mark.parametrize(
    ("root", "counts"),
    [
        (KV, {"recordCount": 0, "namespaces": []}),
        (LOG, {"eventCount": 0, "streams": []}),
    ],
)
def test_instances_are_created_changed_and_listed(
    codebolt: Codebolt, root: str, counts: dict[str, Any]
) -> None:
    made = codebolt.post(f"{root}/instances", {"name": "app", "description": "Settings"})
    codebolt.post(f"{root}/instances", {"name": "other"})
    changed = codebolt.expect(200, "PUT", f"{root}/instances/app", {"description": "All"})

    times = {"createdAt": made["createdAt"], "updatedAt": made["updatedAt"]}
    assert made == {"id": "app", "name": "app", "description": "Settings"} | counts | times
    assert made["createdAt"].endswith("Z")
    assert changed["description"] == "All" and changed["name"] == "app"
    assert [one["id"] for one in codebolt.get(f"{root}/instances")] == ["other", "app"]
    assert codebolt.get(f"{root}/instances/app") == changed
    assert codebolt.expect(204, "DELETE", f"{root}/instances/app") is None
    assert codebolt.faults(404, "GET", f"{root}/instances/app") == []


def test_an_instance_is_changed_only_at_the_version_in_if_match(codebolt: Codebolt) -> None:
    made = codebolt("POST", f"{KV}/instances", {"name": "app"})
    path, etag = f"{KV}/instances/app", made.headers["etag"]

    known = codebolt("GET", path, if_none_match=etag)
    first, second = [
        codebolt("PUT", path, {"description": text}, if_match=etag) for text in ("a", "b")
    ]

    assert (known.status, known.body) == (304, b"")
    assert (first.status, second.status) == (200, 412)
    assert second.json["success"] is False and second.json["errors"] == []
    assert codebolt.get(path)["description"] == "a"


def test_a_pair_is_stored_read_and_deleted(codebolt: Codebolt) -> None:
    path = f"{KV}/kv/app/prefs/theme"

    made = codebolt.post(f"{KV}/kv", THEME)

    assert made == {
        "instanceId": "app",
        "namespace": "prefs",
        "key": "theme",
        "value": "dark",
        "updatedAt": made["updatedAt"],
    }
    assert codebolt.get(path) == {"value": "dark", "exists": True}
    assert codebolt.get(f"{KV}/kv/app/prefs/none") == {"value": None, "exists": False}
    deleted = [codebolt.expect(200, "DELETE", path) for _ in range(2)]
    assert deleted == [{"deleted": True}, {"deleted": False}]


def test_a_key_may_have_a_slash(codebolt: Codebolt) -> None:
    codebolt.post(f"{KV}/kv", THEME | {"key": "a/b", "value": [1]})

    assert codebolt.get(f"{KV}/kv/app/prefs/a%2Fb") == {"value": [1], "exists": True}


def test_a_namespace_is_deleted_with_its_keys(codebolt: Codebolt) -> None:
    for key in "abc":
        codebolt.post(f"{KV}/kv", THEME | {"key": key})

    assert codebolt.expect(200, "DELETE", f"{KV}/namespace/app/prefs") == {"deleted": 3}
    assert codebolt.get(f"{KV}/instances/app")["recordCount"] == 0


def test_both_forms_of_a_query_find_the_same_pairs(codebolt: Codebolt) -> None:
    for key in ("a1", "a2", "b1"):
        codebolt.post(f"{KV}/kv", THEME | {"key": key})
    where = [{"field": "key", "operator": "startsWith", "value": "a"}]
    order = {"field": "key", "direction": "desc"}

    short = {"instance": "app", "namespace": "prefs", "where": where, "order": order, "limit": 1}
    long = {
        "from": {"instance": "app", "namespace": "prefs"},
        "where": where,
        "orderBy": order,
        "limit": 1,
    }
    found = [codebolt.post(f"{KV}/query", body, 200) for body in (short, long)]

    assert found[0] == found[1]
    assert [one["key"] for one in found[0]["records"]] == ["a2"]
    assert (found[0]["total"], found[0]["limit"], found[0]["offset"]) == (2, 1, 0)


@pytest.mark.parametrize("names", [("stream_id", "event_type"), ("streamId", "eventType")])
def test_an_event_is_appended_with_either_spelling(
    codebolt: Codebolt, names: tuple[str, str]
) -> None:
    stream, kind = names
    body = {"instanceId": "log", "autoCreateInstance": True, stream: "u1", kind: "login"}

    event = codebolt.post(f"{LOG}/events", body | {"payload": {"ms": 5}})

    assert event == {
        "id": event["id"],
        "instanceId": "log",
        "stream_id": "u1",
        "event_type": "login",
        "payload": {"ms": 5},
        "metadata": {},
        "timestamp": event["timestamp"],
        "sequence_number": 1,
    }


def test_a_batch_is_appended_completely_or_not_at_all(codebolt: Codebolt) -> None:
    body: dict[str, Any] = {"instanceId": "log", "autoCreateInstance": True}
    events = [LOGIN, {"streamId": "u1", "eventType": "logout", "payload": None}]

    made = codebolt.post(f"{LOG}/events/batch", body | {"events": events})
    faults = codebolt.faults(
        422, "POST", f"{LOG}/events/batch", body | {"events": [LOGIN, {"streamId": ""}]}
    )

    assert [one["sequence_number"] for one in made["events"]] == [1, 2]
    assert ("/events/1/streamId", "bad_param") in faults
    assert ("/events/1/event_type", "required") in faults
    assert codebolt.get(f"{LOG}/instances/log")["eventCount"] == 2


def test_events_are_found_and_aggregated(codebolt: Codebolt) -> None:
    events = [LOGIN | {"payload": {"ms": ms, "host": host}} for ms, host in ((5, "a"), (7, "b"))]
    body = {"instanceId": "log", "autoCreateInstance": True, "events": events}
    codebolt.post(f"{LOG}/events/batch", body)

    slow = codebolt.post(
        f"{LOG}/query",
        {
            "from": {"instance": "log", "stream": "u1"},
            "where": [{"field": "payload.ms", "operator": ">", "value": 5}],
            "orderBy": {"field": "timestamp", "direction": "asc"},
        },
        200,
    )
    total = codebolt.post(
        f"{LOG}/query",
        {
            "from": {"instance": "log"},
            "reduce": {"type": "sum", "field": "payload.ms", "groupBy": "payload.host"},
        },
        200,
    )

    assert [event["payload"]["ms"] for event in slow["events"]] == [7]
    assert (slow["total"], slow["aggregation"]) == (1, None)
    assert total["aggregation"] == {"a": 5, "b": 7}


def test_a_repeated_call_with_its_key_has_no_second_effect(codebolt: Codebolt) -> None:
    body = LOGIN | {"instanceId": "log", "autoCreateInstance": True}

    first, again = [
        codebolt("POST", f"{LOG}/events", body, idempotency_key="append-1") for _ in range(2)
    ]
    other = codebolt("POST", f"{LOG}/events", body | {"payload": 1}, idempotency_key="append-1")

    assert (first.status, first.body) == (again.status, again.body)
    assert other.status == 422 and other.json["errors"] == []
    assert codebolt.get(f"{LOG}/instances/log")["eventCount"] == 1
