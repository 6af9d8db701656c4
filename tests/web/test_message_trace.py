"""GET /v1/pipelines/UID/messages/ENTRY: messages, records and the dead letter of one message."""

from typing import Any

import pytest

from memrelay.memory.engine.timestamps import parse_ms
from memrelay.memory.records.ids import input_of_guid, input_time_ms
from tests.support.bundles import STORE, Json, make_agent, make_memory, make_relay
from tests.support.http import ask
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem

NOTES = "instances/${pipeline_uid}/notes"


def trace(web_system: WebSystem, uid: str, entry: str) -> dict[str, Any]:
    answer = web_system.get(f"/v1/pipelines/{uid}/messages/{entry}")
    assert answer.status == 200, answer
    return dict(answer.json)


def send(web_system: WebSystem, uid: str, text: str) -> str:
    """Send a message, wait for the end of its cascade, and return its entry."""
    answer = web_system.say(uid, text, query="?wait=60")
    assert answer.status == 200, answer
    return str(answer.json["message_id"])


def paths_of(found: dict[str, Any]) -> list[list[str]]:
    """Return the senders from the first message to each message."""
    by_mid = {one["mid"]: one for one in found["said"]}
    paths = []
    for one in found["said"]:
        senders, parent = [one["from"]], one["parent"]
        while parent is not None:
            senders.insert(0, by_mid[parent]["from"])
            parent = by_mid[parent]["parent"]
        assert one["hop"] == len(senders) - 1
        paths.append(senders)
    return paths


def test_a_written_note_is_traced_from_its_sender_to_its_record(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    other = send(web_system, uid, "/write coffee")

    entry = send(web_system, uid, "/write tea")
    found = trace(web_system, uid, entry)

    assert paths_of(found) == [
        ["User"],
        ["User", "dispatch_write"],
        ["User", "dispatch_write", "memory_write"],
    ]
    assert [(one["agent"], one["block"], one["swarm"]) for one in found["said"]] == [
        ("", "", "chat"),
        ("dispatch_write_", "regex_match", "chat"),
        ("memory_write_", "memory_write", "chat"),
    ]
    assert all(one["mid"].startswith(f"{entry}.") for one in found["said"])
    assert [one["text"] for one in found["said"][:2]] == ["/write tea", "tea"]
    (record,) = found["records"]
    assert record["guid"] in found["said"][2]["text"]
    assert (record["content"], record["characters"]) == ("tea", 3)
    assert (record["agent"], record["block"]) == ("memory_write_", "memory_write")
    assert (record["store"], record["deleted"]) == (f"instances/{uid}/memories", False)
    assert (found["dead_letter"], found["complete"], found["entry"]) == (None, True, entry)
    assert trace(web_system, uid, other)["records"][0]["content"] == "coffee"


def test_a_deleted_record_is_still_traced(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    entry = send(web_system, uid, "/write tea")
    guid = trace(web_system, uid, entry)["records"][0]["guid"]

    send(web_system, uid, f"/delete {guid}")

    (record,) = trace(web_system, uid, entry)["records"]
    assert (record["guid"], record["deleted"]) == (guid, True)


def test_a_failed_message_is_traced_to_its_dead_letter(web_system: WebSystem) -> None:
    uid = web_system.deploy(make_agent("plus", "add_1"))
    entry = send(web_system, uid, "tea")

    found = trace(web_system, uid, entry)

    assert (found["said"], found["records"], found["complete"]) == ([], [], True)
    letter = found["dead_letter"]
    assert (letter["id"], letter["attempts"]) == (entry, 1)
    assert letter == web_system.get(f"/v1/dead-letters?pipeline={uid}").json["items"][0]


def test_a_trimmed_log_makes_the_trace_incomplete(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    entry = send(web_system, uid, "/write tea")
    later = send(web_system, uid, "/write coffee")
    assert trace(web_system, uid, entry)["complete"] is True

    web_system.system.client.redis.xtrim(f"swarm:{{{uid}}}:chat", maxlen=3, approximate=False)

    found = trace(web_system, uid, entry)
    assert (found["said"], found["complete"]) == ([], False)
    assert [one["content"] for one in found["records"]] == ["tea"]
    web_system.system.client.redis.xtrim(f"swarm:{{{uid}}}:chat", maxlen=2, approximate=False)
    assert len(trace(web_system, uid, later)["said"]) == 2


def test_steps_in_other_stores_and_silent_agents_are_traced(web_system: WebSystem) -> None:
    first = make_memory("write", senders="User")
    copy = make_memory("write", senders="memory_write", memory_id=NOTES, alias="copy")
    silent = make_memory("write", senders="copy", memory_id=STORE, alias="silent")
    uid = web_system.deploy(first, copy, silent | {"wf_publish_results": False})
    entry = send(web_system, uid, "tea")
    wait_for(lambda: len(trace(web_system, uid, entry)["records"]) == 3, "all steps have run")

    found = trace(web_system, uid, entry)

    assert paths_of(found) == [
        ["User"],
        ["User", "memory_write"],
        ["User", "memory_write", "copy"],
    ]
    assert {(one["agent"], one["store"].rpartition("/")[2]) for one in found["records"]} == {
        ("memory_write_", "memories"),
        ("copy_", "notes"),
        ("silent_", "memories"),
    }


def test_an_answer_belongs_to_the_message_that_its_block_accepts(web_system: WebSystem) -> None:
    uid = web_system.deploy(
        make_relay("twice", "^(go)$", senders="User"),
        make_relay("more", "^(go)$", senders="dispatch_twice", to="side"),
        make_agent("echo", "regex_match", {"pattern": "^(go)$"}, on="side", to="chat"),
    )

    found = trace(web_system, uid, send(web_system, uid, "go"))

    assert paths_of(found)[-1] == ["User", "dispatch_twice", "dispatch_more", "echo"]
    assert [one["swarm"] for one in found["said"]] == ["chat", "chat", "side", "chat"]


def test_a_record_written_over_the_api_is_traced_to_its_operation(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    made = web_system.post(f"/v1/pipelines/{uid}/records", {"content": "tea"}).json

    found = trace(web_system, uid, input_of_guid(made["guid"]))

    assert (found["said"], found["dead_letter"], found["complete"]) == ([], None, True)
    (record,) = found["records"]
    assert (record["guid"], record["agent"], record["block"]) == (
        made["guid"],
        "records.create",
        "",
    )


def test_a_message_that_waits_is_traced_with_its_time(web_system: WebSystem) -> None:
    echo = make_agent("echo", "json_map", {"expression": "@"}, senders="User")
    limited = make_memory("write", senders="User") | {"wf_publish_results": False}
    uid = web_system.deploy(
        echo | {"wf_flow": {"debounce_s": 80_000}}, limited | {"wf_flow": {"rate": "1/80000s"}}
    )
    first, entry = send(web_system, uid, "milk"), send(web_system, uid, "tea")

    found = trace(web_system, uid, entry)

    assert [one["agent"] for one in found["waiting"]] == ["echo_", "memory_write_"]
    assert all(one["id"].startswith(f"{entry}.") for one in found["waiting"])
    times = [(parse_ms(one["wakes_at"]) or 0) - input_time_ms(entry) for one in found["waiting"]]
    assert all(79_000_000 < time_ms < 81_000_000 for time_ms in times)
    # Its first message was replaced, and its rate let it run.
    earlier = trace(web_system, uid, first)
    assert (earlier["waiting"], len(earlier["records"])) == ([], 1)


def test_long_texts_are_shortened(web_system: WebSystem) -> None:
    uid = web_system.deploy()

    found = trace(web_system, uid, send(web_system, uid, "/write " + "t" * 4000))

    assert (len(found["said"][1]["text"]), found["said"][1]["characters"]) == (2000, 4000)
    assert (len(found["records"][0]["content"]), found["records"][0]["characters"]) == (2000, 4000)


def test_an_unknown_entry_has_an_empty_trace(web_system: WebSystem) -> None:
    uid = web_system.deploy()

    assert trace(web_system, uid, "1780000000000-0") == {
        "entry": "1780000000000-0",
        "said": [],
        "records": [],
        "dead_letter": None,
        "waiting": [],
        "timeline": [],
        "took_ms": 0.0,
        "slowest": "",
        "complete": True,
    }


@pytest.mark.parametrize("entry", ["order-1", "1780000000000-0.1~0a0b0c0d", "1", "9" * 20 + "-0"])
def test_an_invalid_entry_is_rejected(web_system: WebSystem, entry: str) -> None:
    status, detail = web_system.get(f"/v1/pipelines/{web_system.deploy()}/messages/{entry}").problem

    assert status == 400
    assert "the part of a `mid` before its first dot" in detail


def test_a_trace_needs_a_known_pipeline_and_the_scope_read(web_system: WebSystem) -> None:
    assert web_system.get("/v1/pipelines/nobody/messages/1780000000000-0").problem[0] == 404


def test_a_replayed_dead_letter_has_a_complete_trace(web_system: WebSystem) -> None:
    broken: Json = make_agent("plus", "add_1")
    uid = web_system.deploy(broken)
    entry = send(web_system, uid, "tea")
    fixed = {
        "pipeline_name": "test",
        "pipeline_uid": uid,
        "agents": [make_memory("write", senders="User")],
    }
    assert ask(web_system.url, "PUT", f"/v1/pipelines/{uid}", fixed).json["served"]

    assert web_system.post(f"/v1/dead-letters/{uid}/{entry}/replay?wait=60").status == 200

    found = trace(web_system, uid, entry)
    assert paths_of(found) == [["User"], ["User", "memory_write"]]
    assert [one["content"] for one in found["records"]] == ["tea"]
    assert found["dead_letter"] is None
