"""Every event of Codebolt's documents is sent for the change that it reports, with its data."""

from typing import Any, NamedTuple

from tests.support.listener import Listener
from tests.support.recipes import KV, Project
from tests.support.web_system import WebSystem

Json = dict[str, Any]
TYPES, KVSTORE, LOGS, KG = "/persistent-memory/types", "/kvstore", "/eventlog", "/kg"
RECIPE = {"id": "r", "label": "R", "retrieval": {"pipeline": [KV]}}
PAIR = {"instanceId": "app", "namespace": "prefs", "key": "theme", "value": "dark"}
EVENT = {"stream_id": "s", "event_type": "e", "payload": {"message": "m"}}
TEMPLATE = {"id": "t", "name": "t", "match": {"alias": "a"}, "return": [{"expression": "a.name"}]}
KINDS = {"name": "kinds", "record_kinds": {}, "edge_types": {}}
NODES = [{"id": name, "kind": "person", "name": name} for name in ("ada", "ben", "cy")]
EDGES = [
    {"id": "e1", "kind": "knows", "from_node_id": "ada", "to_node_id": "ben"},
    {"id": "e2", "kind": "knows", "from_node_id": "ben", "to_node_id": "cy"},
    {"id": "e3", "kind": "knows", "from_node_id": "cy", "to_node_id": "ada"},
]


class Change(NamedTuple):
    """A request, the event that it causes, and some of the event's data."""

    method: str
    path: str
    body: Json
    event: str
    data: Json


CHANGES = [
    Change(
        "POST", f"{KVSTORE}/instances", {"name": "app"}, "kvStore:instance-created", {"id": "app"}
    ),
    Change(
        "PUT",
        f"{KVSTORE}/instances/app",
        {"description": "settings"},
        "kvStore:instance-updated",
        {"id": "app", "description": "settings"},
    ),
    Change("POST", f"{KVSTORE}/kv", PAIR, "kvStore:record-set", PAIR),
    Change("POST", TYPES, RECIPE, "persistentMemory:created", {"id": "r", "label": "R"}),
    Change(
        "POST",
        f"{TYPES}/r/execute",
        {},
        "persistentMemory:pipeline-executed",
        {"id": "r", "label": "R", "success": True},
    ),
    Change(
        "POST",
        "/context-assembly/assemble",
        {"scope_variables": {}, "explicit_memory": ["r"]},
        "contextAssembly:started",
        {},
    ),
    Change("PUT", f"{TYPES}/r", RECIPE, "persistentMemory:updated", {"id": "r", "label": "R"}),
    Change("DELETE", f"{TYPES}/r", {}, "persistentMemory:deleted", {"id": "r", "label": "R"}),
    Change(
        "DELETE",
        f"{KVSTORE}/kv/app/prefs/theme",
        {},
        "kvStore:record-deleted",
        {"instanceId": "app", "namespace": "prefs", "key": "theme"},
    ),
    Change(
        "POST",
        f"{KVSTORE}/kv",
        PAIR | {"value": {"a": 1}},
        "kvStore:record-set",
        {"value": {"a": 1}},
    ),
    Change(
        "DELETE",
        f"{KVSTORE}/namespace/app/prefs",
        {},
        "kvStore:namespace-cleared",
        {"instanceId": "app", "namespace": "prefs"},
    ),
    Change("DELETE", f"{KVSTORE}/instances/app", {}, "kvStore:instance-deleted", {"id": "app"}),
    Change(
        "POST", f"{LOGS}/instances", {"name": "log"}, "eventLog:instance-created", {"id": "log"}
    ),
    Change(
        "PUT",
        f"{LOGS}/instances/log",
        {"name": "Log"},
        "eventLog:instance-updated",
        {"name": "Log"},
    ),
    Change(
        "POST",
        f"{LOGS}/events",
        {"instanceId": "log"} | EVENT,
        "eventLog:event-appended",
        EVENT | {"sequence_number": 1},
    ),
    Change(
        "POST",
        f"{LOGS}/events/batch",
        {"instanceId": "log", "events": [EVENT, EVENT]},
        "eventLog:events-appended",
        {"instanceId": "log"},
    ),
    Change("DELETE", f"{LOGS}/instances/log", {}, "eventLog:instance-deleted", {"id": "log"}),
    Change(
        "POST",
        f"{KG}/instance-templates",
        KINDS,
        "knowledgeGraph:instance-template-created",
        {"name": "kinds"},
    ),
    Change(
        "POST", f"{KG}/instances", {"name": "g"}, "knowledgeGraph:instance-created", {"id": "g"}
    ),
    Change("POST", f"{KG}/instances/g/records", NODES[0], "knowledgeGraph:record-added", NODES[0]),
    Change(
        "POST",
        f"{KG}/instances/g/records",
        {"records": NODES[1:]},
        "knowledgeGraph:records-added",
        {"instanceId": "g"},
    ),
    Change(
        "PUT",
        f"{KG}/instances/g/records/ada",
        {"name": "Ada"},
        "knowledgeGraph:record-updated",
        {"id": "ada", "name": "Ada"},
    ),
    Change("POST", f"{KG}/instances/g/edges", EDGES[0], "knowledgeGraph:edge-added", EDGES[0]),
    Change(
        "POST",
        f"{KG}/instances/g/edges",
        {"edges": EDGES[1:]},
        "knowledgeGraph:edges-added",
        {"instanceId": "g"},
    ),
    Change("DELETE", f"{KG}/instances/g/edges/e3", {}, "knowledgeGraph:edge-deleted", EDGES[2]),
    Change(
        "DELETE", f"{KG}/instances/g/records/cy", {}, "knowledgeGraph:record-deleted", {"id": "cy"}
    ),
    Change(
        "POST",
        f"{KG}/view-templates",
        TEMPLATE,
        "knowledgeGraph:view-template-created",
        {"id": "t"},
    ),
    Change(
        "PUT",
        f"{KG}/view-templates?id=t",
        {"name": "T"},
        "knowledgeGraph:view-template-updated",
        {"id": "t", "name": "T"},
    ),
    Change(
        "POST",
        f"{KG}/views",
        {"id": "v", "viewTemplateId": "t", "instanceId": "g"},
        "knowledgeGraph:view-created",
        {"id": "v", "instanceId": "g"},
    ),
    Change("DELETE", f"{KG}/views?id=v", {}, "knowledgeGraph:view-deleted", {"id": "v"}),
    Change(
        "DELETE",
        f"{KG}/view-templates?id=t",
        {},
        "knowledgeGraph:view-template-deleted",
        {"id": "t"},
    ),
    Change("DELETE", f"{KG}/instances?id=g", {}, "knowledgeGraph:instance-deleted", {"id": "g"}),
]
# The events of an assembly after the first.
OF_ASSEMBLY = (
    "contextAssembly:rulesEvaluated",
    "contextAssembly:pipelineComplete",
    "contextAssembly:complete",
)


def check(project: Project, listener: Listener, change: Change) -> None:
    """Make a change, and expect its event."""
    answer = project.ask(change.method, change.path, change.body or b"")
    assert answer.status in (200, 201, 204), (change, answer)
    event = listener.receive()
    assert event["event"] == change.event, (change, event)
    data = event["data"]
    assert data | change.data == data, (change, data)
    if change.event == "contextAssembly:started":
        assert tuple(listener.receive()["event"] for _ in OF_ASSEMBLY) == OF_ASSEMBLY


def test_each_change_sends_its_event() -> None:
    with WebSystem(WEB__RATE="0") as web_system:
        project = Project(web_system.url, web_system.deploy())
        path = f"/p/{project.uid}/persistent-memory/events"
        with Listener(web_system.url, project.uid, path=path) as listener:
            for change in CHANGES:
                check(project, listener, change)
            wrong = {"scope_variables": {"taks": {}}}
            assert project.ask("POST", "/context-assembly/assemble", wrong).status == 422
            heard = [listener.receive() for _ in range(2)]

    assert [one["event"] for one in heard] == ["contextAssembly:started", "contextAssembly:error"]
    assert "taks" in heard[1]["data"]["message"]
