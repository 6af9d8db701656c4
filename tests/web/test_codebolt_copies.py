"""Objects of Codebolt's paths that clients send back as they read them."""

from typing import Any

import pytest

from tests.support.codebolt import Codebolt
from tests.support.web_system import WebSystem

TEMPLATE = {"name": "People", "record_kinds": {"person": {"fields": {}}}, "edge_types": {}}
QUERY = {
    "id": "all",
    "name": "All",
    "match": {"alias": "a", "recordKind": "person"},
    "return": [{"expression": "a.name", "alias": "name"}],
}
ADA = {"id": "ada", "kind": "person", "name": "Ada", "attributes": {"age": 36}}
BEN = {"id": "ben", "kind": "person", "name": "Ben"}
ENGINE = {"name": "main", "rules": [{"name": "r", "when": [], "then": {"add_memories": ["x"]}}]}


@pytest.fixture
def codebolt(web_system: WebSystem) -> Codebolt:
    return Codebolt(web_system, web_system.deploy())


def put_back(codebolt: Codebolt, path: str, put: str = "") -> None:
    """Read an object, or the first one of a list, and send it back to the path."""
    found = codebolt.get(path)
    one = found[0] if isinstance(found, list) else found
    after = codebolt.expect(200, "PUT", put or path, one)
    assert without_times(after) == without_times(one)
    assert codebolt.faults(400, "PUT", put or path, one | {"id": "other", "name": "x"}) == [
        ("/id", "bad_id")
    ]


def without_times(one: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in one.items() if name not in ("createdAt", "updatedAt")}


@pytest.mark.parametrize("root", ["/kvstore", "/eventlog"])
def test_an_instance_is_put_back(codebolt: Codebolt, root: str) -> None:
    codebolt.post(f"{root}/instances", {"name": "app", "description": "Settings"})
    put_back(codebolt, f"{root}/instances/app")


def test_an_instance_with_another_id_is_put_back_by_its_name(codebolt: Codebolt) -> None:
    made = codebolt.post("/kvstore/instances", {"name": "My app"})

    assert made["id"] != "My app"
    codebolt.expect(200, "PUT", "/kvstore/instances/My%20app", made)


def test_parts_of_graphs_are_put_back(codebolt: Codebolt) -> None:
    kinds = codebolt.post("/kg/instance-templates", TEMPLATE)
    codebolt.post("/kg/instances", {"name": "team", "templateId": kinds["id"]})
    codebolt.post("/kg/instances/team/records", ADA)
    codebolt.post("/kg/view-templates", QUERY)

    put_back(codebolt, "/kg/instance-templates", f"/kg/instance-templates?id={kinds['id']}")
    put_back(codebolt, "/kg/view-templates", "/kg/view-templates?id=all")
    put_back(codebolt, "/kg/instances/team/records/ada")


def test_a_rule_engine_is_put_back(codebolt: Codebolt) -> None:
    made = codebolt.post("/context-rule-engine", ENGINE)
    put_back(codebolt, f"/context-rule-engine/{made['id']}")


def test_a_graph_is_copied_with_its_own_answers(codebolt: Codebolt) -> None:
    for name in ("team", "copy"):
        codebolt.post("/kg/instances", {"name": name})
    codebolt.post("/kg/instances/team/records", {"records": [ADA, BEN]})
    edge = {"kind": "knows", "from_node_id": "ada", "to_node_id": "ben"}
    codebolt.post("/kg/instances/team/edges", edge)
    nodes, edges = (codebolt.get(f"/kg/instances/team/{part}") for part in ("records", "edges"))

    codebolt.post("/kg/instances/copy/records", {"records": nodes})
    codebolt.post("/kg/instances/copy/edges", edges[0])

    assert len(nodes) == 2
    copied = codebolt.get("/kg/instances/copy/records")
    assert [without_times(one) for one in copied] == [without_times(one) for one in nodes]


def test_events_of_a_query_have_the_names_of_appended_ones(codebolt: Codebolt) -> None:
    event = {"instanceId": "log", "stream_id": "s", "event_type": "e", "payload": 1}
    made = codebolt.post("/eventlog/events", event | {"autoCreateInstance": True})

    found = codebolt.post("/eventlog/query", {"from": {"instance": "log"}}, 200)
    every = {"from": {"instance": "log"}, "select": ["*"]}

    assert found["events"] == [made]
    assert codebolt.post("/eventlog/query", every, 200)["events"] == [made]


def test_faults_of_an_event_name_only_what_is_wrong(codebolt: Codebolt) -> None:
    event = {"instanceId": "log", "stream_id": "", "event_type": "e", "payload": 1}
    early = event | {"stream_id": "s", "timestamp": "1969-12-31T00:00:00Z"}

    assert codebolt.faults(422, "POST", "/eventlog/events", event) == [("/stream_id", "bad_param")]
    assert codebolt.faults(422, "POST", "/eventlog/events", early) == [("/timestamp", "bad_type")]


def test_an_error_names_no_field_of_an_operation(codebolt: Codebolt) -> None:
    codebolt.post("/kg/instances", {"name": "team"})
    edge = {"kind": "knows", "from_node_id": "a", "to_node_id": "b"}

    found = codebolt.expect(422, "POST", "/kg/instances/team/edges", edge)

    assert [fault["path"] for fault in found["errors"]] == ["/from_node_id", "/to_node_id"]
    assert found["error"] == "the input has 2 errors"
