"""Endpoints get the events of each memory model by their names, one for each change."""

from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from memrelay.memory.endpoint_rules import TEST_TYPE
from memrelay.memory.models.endpoints.events import list_event_types
from memrelay.web.openapi.event_catalog import (
    FIELDS,
    PAGE,
    SCHEMA,
    dump_schema,
    fill,
    find_shapes,
    list_types,
    make_example,
    make_schema,
    make_shape,
)
from tests.support.blocks import MINE
from tests.support.bundles import make_agent, make_bundle, make_commands, make_uid
from tests.support.calls import call, refused
from tests.support.system import TestSystem
from tests.support.waiting import wait_for
from tests.support.webhook_receiver import Reply, WebhookReceiver
from tests.support.worker import arm

VALIDATOR = Draft202012Validator(make_schema())
NOTES = "instances/${pipeline_uid}/notes"
# The agent writes what it hears, and then fails if that has a mine. Only workers know its block.
FAILING = make_uid()
KEEPER = make_agent("keeper", "test_fails", {"memory_id": NOTES}, senders="User")


@pytest.fixture(scope="module")
def system() -> Iterator[TestSystem]:
    with TestSystem() as system:
        failing = make_bundle(FAILING, KEEPER)
        system.start_worker(outgoing={"open_for": ["endpoints"]}, bundles=[failing])
        yield system


@pytest.fixture
def uid(system: TestSystem) -> str:
    uid = make_uid()
    system.deploy(make_bundle(uid, *make_commands(NOTES)))
    return uid


def check_event(body: Any) -> None:
    """Compare the body of a request with the schema of its event, also for unknown fields."""
    assert [*VALIDATOR.iter_errors(body)] == []
    shapes = [make_shape(name)["properties"] for name in find_shapes(body["type"])]
    fields = shapes or [FIELDS[body["type"]]]
    assert any(body["data"].keys() <= one.keys() for one in fields), body


def wait_for_events(receiver: WebhookReceiver, *types: str) -> list[Any]:
    """Return the data of the events that an ordered endpoint gets, which are of these types.

    The last is one that follows all others in their store, so that one too many is seen.
    """
    events = [one.json for one in receiver.wait(len(types))]
    assert [one["type"] for one in events] == list(types)
    for event in events:
        check_event(event)
    return [one["data"] for one in events]


def test_entries_of_memories(system: TestSystem, uid: str) -> None:
    with WebhookReceiver() as receiver:
        types = ["record.*", "entry.*", "fact.*"]
        given = {"url": receiver.url, "ordered": True, "events": types}
        call(system, uid, "endpoints.create", given)

        def write(text: str, mode: str | None = None) -> Any:
            return call(
                system, uid, "entries.create", {"memory": "m", "content": text, "mode": mode}
            )

        entry = write("The meeting is at 3pm in room 4")
        assert write("The meeting is at 3pm in room 4")["action"] == "skipped"
        write("The meeting is at 3pm in room 4", mode="create")
        merged = call(
            system,
            uid,
            "entries.create",
            {"memory": "m", "content": "Bring a pen", "update_threshold": 0},
        )
        assert merged["action"] == "updated"
        call(system, uid, "entries.update", {"id": entry["id"], "content": "Tea is at four"})
        call(system, uid, "entries.delete", {"id": entry["id"]})
        call(system, uid, "facts.set", {"key": "the end", "value": 1})
        data = wait_for_events(
            receiver,
            "entry.created",
            "entry.skipped",
            "entry.created",
            "entry.merged",
            "entry.updated",
            "entry.deleted",
            "fact.set",
        )
        assert data[0]["store"] == f"instances/{uid}/memories"
        assert (data[0]["id"], data[0]["memory_id"]) == (entry["id"], entry["memory_id"])
        assert data[0]["content"].startswith("The meeting")
        assert data[1]["guid"] == data[0]["guid"]
        assert data[5] == {"guid": data[0]["guid"], "store": data[0]["store"]}


def test_facts_and_episodes(system: TestSystem, uid: str) -> None:
    with WebhookReceiver() as receiver:
        types = ["fact.*", "episode.*"]
        given = {"url": receiver.url, "ordered": True, "events": types}
        call(system, uid, "endpoints.create", given)
        for value in ("tea", "tea", "coffee"):
            call(system, uid, "facts.set", {"key": "drink", "value": value})
        episode = call(system, uid, "episodes.begin", {"agent_id": "a", "trigger_input": "hi"})
        call(system, uid, "episodes.complete", {"id": episode["id"], "success": True})
        call(system, uid, "facts.set", {"key": "the end", "value": 1})
        _, _, fact, ended, _ = wait_for_events(
            receiver,
            "fact.set",
            "fact.set",
            "fact.contradicted",
            "episode.completed",
            "fact.set",
        )
        assert (fact["key"], fact["value"], fact["times_contradicted"]) == ("drink", "coffee", 1)
        assert (ended["id"], ended["success"]) == (episode["id"], True)


def test_items_have_their_place_and_no_value(system: TestSystem, uid: str) -> None:
    with WebhookReceiver() as receiver:
        given = {"url": receiver.url, "ordered": True, "events": ["item.*", "record.*"]}
        call(system, uid, "endpoints.create", given)
        place = {"agent": "a", "store": "a", "key": "plan"}
        for value in ("xyzzy-plugh", "xyzzy-plover"):
            call(system, uid, "items.put", {**place, "value": value})
        call(system, uid, "items.delete", place)
        call(system, uid, "items.put", {**place, "key": "the end", "value": 1})
        data = wait_for_events(receiver, "item.put", "item.put", "item.deleted", "item.put")
        item = {"store": "a", "namespace": "", "key": "plan", "owner": "a"}
        assert [one["item"] for one in data[:3]] == [item] * 3
        assert not any(b"xyzzy" in one.body for one in receiver.requests)


def test_appended_and_restored_records(system: TestSystem, uid: str) -> None:
    with WebhookReceiver() as receiver:
        given = {"url": receiver.url, "ordered": True}
        call(system, uid, "endpoints.create", given)
        guid = call(system, uid, "records.create", {"content": "one"})["guid"]
        call(system, uid, "records.append", {"guid": guid, "content": "two"})
        call(system, uid, "records.delete", {"guid": guid})
        call(system, uid, "records.restore", {"guid": guid})
        call(system, uid, "records.restore", {"guid": guid, "number": 1})
        changes = call(system, uid, "changes.list")["items"]
        call(system, uid, "records.create", {"content": "the end"})
        data = wait_for_events(
            receiver,
            "record.created",
            "record.appended",
            "record.deleted",
            "record.restored",
            "record.restored",
            "record.created",
        )
        assert data[4]["content"] == "one"
    assert [one["type"] for one in changes] == [
        "record.created",
        "record.updated",
        "record.deleted",
        "record.created",
        "record.updated",
    ]


def test_verdicts_of_policies(system: TestSystem, uid: str) -> None:
    with WebhookReceiver() as receiver:
        call(system, uid, "endpoints.create", {"url": receiver.url, "events": ["policy.*"]})
        for name, action in (("hide", "redact"), ("stop", "refuse")):
            match = {"find": {"pattern": f"xyzzy-{name}"}}
            policy = {"name": name, "match": match, "action": action}
            call(system, uid, "policies.set", {"policy": policy})
        guid = call(system, uid, "records.create", {"content": "xyzzy-hide"})["guid"]
        refused(system, uid, "records.create", {"content": "xyzzy-stop"})
        for one in receiver.wait(2):
            check_event(one.json)
        events = [one.json["data"] for one in receiver.wait(2)]
        assert {one["action"]: one["policy"] for one in events} == {
            "redact": "hide",
            "refuse": "stop",
        }
        assert guid in [one["id"] for one in events] and "xyzzy" not in str(events)


def test_a_message_that_fails_sends_its_dead_letter_only(system: TestSystem) -> None:
    uid = FAILING
    with WebhookReceiver() as receiver:
        given = {"url": receiver.url, "ordered": True}
        call(system, uid, "endpoints.create", given)
        ident, _ = system.client.enter_together(uid, [f"tea {MINE}", "coffee"])
        system.await_dead_letter(uid, ident)
        events = {one.json["type"]: one.json["data"] for one in receiver.wait(2)}
        for one in receiver.wait(2):
            check_event(one.json)
        assert events["record.created"]["content"] == "coffee"
        assert events["dead_letter.added"] == {
            "id": ident,
            "pipeline": uid,
            "swarm": "chat",
            "agent": "",
            "attempts": 1,
        }
        call(system, uid, "records.create", {"content": "the end"})
        assert receiver.wait(3)[2].json["data"]["content"] == "the end"


def test_a_dead_letter_is_sent_under_one_id_after_a_crash() -> None:
    uid, rules = make_uid(), {"open_for": ["endpoints"]}
    with TestSystem() as system, WebhookReceiver() as receiver:
        worker = system.start_stepping_worker(
            armed=False,
            die_on="dead letters stored",
            outgoing=rules,
            bundles=[make_bundle(uid, KEEPER)],
        )
        given = {"url": receiver.url, "events": ["dead_letter.*", "pipeline.*"]}
        call(system, uid, "endpoints.create", given)
        arm(worker)
        (ident,) = system.client.enter_together(uid, [f"tea {MINE}"])
        wait_for(lambda: not worker.lives, "the worker has killed itself")
        system.start_worker(outgoing=rules)
        system.await_dead_letter(uid, ident)
        receiver.wait(1)
        assert {one.json["data"]["id"] for one in receiver.requests} == {ident}
        assert len({one.id for one in receiver.requests}) == 1


def test_a_deploy_is_an_event(system: TestSystem, uid: str) -> None:
    with WebhookReceiver() as receiver:
        given = {"url": receiver.url, "events": ["pipeline.*"]}
        call(system, uid, "endpoints.create", given)
        system.deploy(make_bundle(uid, *make_commands(NOTES + "2")))
        (request,) = receiver.wait(1)
        check_event(request.json)
        data = request.json["data"]
        assert request.json["type"] == "pipeline.deployed"
        assert (data["pipeline"], data["version"]) == (uid, 2)


def test_other_endpoints_learn_that_one_was_switched_off(system: TestSystem, uid: str) -> None:
    with WebhookReceiver() as receiver, WebhookReceiver(usual=Reply(410, b"gone")) as gone:
        call(system, uid, "endpoints.create", {"url": receiver.url, "events": ["endpoint.*"]})
        off = call(system, uid, "endpoints.create", {"url": gone.url})["endpoint"]["id"]
        call(system, uid, "records.create", {"content": "tea"})
        (request,) = receiver.wait(1)
        check_event(request.json)
        assert request.json["type"] == "endpoint.disabled"
        assert request.json["data"] == {
            "id": off,
            "url": call(system, uid, "endpoints.list")["items"][1]["url"],
            "reason": "the receiver answered 410: it is gone",
        }
        waiting = call(system, uid, "deliveries.list", {"endpoint": off})["items"]
        assert [one["type"] for one in waiting] == ["record.created"]


def test_unknown_events_are_refused_with_the_known_ones(system: TestSystem, uid: str) -> None:
    given = {"url": "https://example.com", "events": ["entry.made"]}
    code, detail = refused(system, uid, "endpoints.create", given)
    assert (code, "entry.merged" in detail) == ("refused", True)


def test_the_sources_of_recipes(system: TestSystem, uid: str) -> None:
    with WebhookReceiver() as receiver:
        types = [
            f"{name}.*" for name in ("kv", "event", "events", "node", "nodes", "edge", "edges")
        ]
        given = {"url": receiver.url, "ordered": True, "events": [*types, "memory.*"]}
        call(system, uid, "endpoints.create", given)
        pair = {"instance": "prefs", "namespace": "ui", "key": "theme"}
        call(system, uid, "kv.set", pair | {"value": 1, "auto_create": True})
        call(system, uid, "kv.delete", pair)
        call(system, uid, "kv.set", pair | {"value": 2})
        call(system, uid, "kv.clear", {"instance": "prefs", "namespace": "ui"})
        logged = {"stream_id": "s", "event_type": "e", "payload": {}}
        for events in ([logged], [logged, logged]):
            append = {"instance": "log", "events": events, "auto_create": True}
            call(system, uid, "events.append", append)
        entities = [{"name": one, "entity_type": "x", "observations": []} for one in "abc"]
        relation = {"from_entity": "a", "to_entity": "b", "relation_type": "knows"}
        for some in (entities[:1], entities[1:]):
            call(system, uid, "knowledge_graph.create_entities", {"entities": some})
        relations = {"relations": [relation]}
        call(system, uid, "knowledge_graph.create_relations", relations)
        call(system, uid, "knowledge_graph.delete_relations", relations)
        memory = call(system, uid, "memories.create", {"name": "m"})["id"]
        call(system, uid, "memories.update", {"id": memory, "description": "of tea"})
        call(system, uid, "memories.delete", {"id": memory})
        bodies = [one.json for one in receiver.wait(13)]

    for body in bodies:
        check_event(body)
    assert {one["type"] for one in bodies} >= {
        *("kv.set", "kv.deleted", "kv.cleared", "event.appended", "events.appended"),
        *("node.added", "nodes.added", "edge.added", "edge.deleted"),
        *("memory.created", "memory.updated", "memory.deleted"),
    }


def test_changes_of_two_stores_with_the_same_number_are_two_deliveries(
    system: TestSystem, uid: str
) -> None:
    with WebhookReceiver() as receiver:
        given = {"url": receiver.url, "events": ["record.created", "memory.created"]}
        call(system, uid, "endpoints.create", given)
        call(system, uid, "records.create", {"content": "tea"})
        call(system, uid, "memories.create", {"name": "m"})
        assert {one.json["type"] for one in receiver.wait(2, 10)} == {
            "record.created",
            "memory.created",
        }


def test_the_catalog_has_all_events_with_an_example_each() -> None:
    assert sorted(list_types()) == sorted([*list_event_types(), TEST_TYPE])
    for type_ in list_types():
        check_event(make_example(type_))
    VALIDATOR.check_schema(make_schema())


def test_the_pages_of_the_catalog_are_current() -> None:
    remedy = "run python -m memrelay.web.openapi.event_catalog"
    assert PAGE.read_text() == fill(PAGE.read_text()), remedy
    assert SCHEMA.read_text() == dump_schema(), remedy
