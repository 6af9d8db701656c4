"""Graphs, their templates and views over Codebolt's paths."""

from typing import Any

import pytest

from tests.support.codebolt import Codebolt
from tests.support.web_system import WebSystem

KG = "/kg"
TEAM = f"{KG}/instances/team"
PEOPLE = {
    "id": "people",
    "name": "People",
    "match": {"alias": "a", "recordKind": "person"},
    "return": [{"expression": "a.name", "alias": "name"}],
}


@pytest.fixture
def codebolt(web_system: WebSystem) -> Codebolt:
    return Codebolt(web_system, web_system.deploy())


@pytest.fixture
def team(codebolt: Codebolt) -> Codebolt:
    """Return a pipeline with a graph of three people who know each other in a row."""
    codebolt.post(f"{KG}/instances", {"name": "team"})
    people = [{"id": name.lower(), "name": name, "kind": "person"} for name in ("Ada", "Ben", "Cy")]
    codebolt.post(f"{TEAM}/records", {"records": people})
    pairs = (("ada", "ben"), ("ben", "cy"))
    edges = [
        {"id": one, "kind": "knows", "from_node_id": one, "to_node_id": other}
        for one, other in pairs
    ]
    codebolt.post(f"{TEAM}/edges", {"edges": edges})
    return codebolt


def names_of(nodes: Any) -> list[str]:
    return [node["name"] for node in nodes]


def test_a_graph_counts_its_nodes_and_edges(team: Codebolt) -> None:
    (graph,) = team.get(f"{KG}/instances")

    assert (graph["id"], graph["templateId"]) == ("team", None)
    assert (graph["nodeCount"], graph["edgeCount"]) == (3, 2)
    assert team.expect(204, "DELETE", f"{KG}/instances?id=team") is None
    assert team.get(f"{KG}/instances") == []


def test_a_node_is_added_changed_and_deleted_with_its_edges(team: Codebolt) -> None:
    node = team.post(f"{TEAM}/records", {"name": "Dee", "kind": "person", "attributes": {"age": 9}})
    path = f"{TEAM}/records/{node['id']}"
    edge = team.post(
        f"{TEAM}/edges", {"kind": "knows", "from_node_id": node["id"], "to_node_id": "ada"}
    )

    changed = team.expect(200, "PUT", path, {"name": "Di"})

    assert edge["from_node_id"] == node["id"] and edge["kind"] == "knows"
    assert (changed["name"], changed["attributes"]) == ("Di", {"age": 9})
    assert team.get(path) == changed
    assert team.expect(204, "DELETE", path) is None
    assert team.faults(404, "GET", path) == []
    assert len(team.get(f"{TEAM}/edges")) == 2


def test_lists_have_links_to_the_next_page(team: Codebolt) -> None:
    first = team("GET", f"{TEAM}/records?limit=2&kind=person")
    link = first.headers["link"]
    path = link.removeprefix("<").partition(">")[0].removeprefix(f"/p/{team.uid}")

    rest = team("GET", path)

    assert link.endswith('; rel="next"')
    assert names_of(first.json) + names_of(rest.json) == ["Ada", "Ben", "Cy"]
    assert "link" not in rest.headers
    assert [one["id"] for one in team.get(f"{TEAM}/edges?from_node_id=ben")] == ["ben"]


def test_an_edge_is_deleted_by_its_id(team: Codebolt) -> None:
    assert team.expect(204, "DELETE", f"{TEAM}/edges/ada") is None
    assert [edge["id"] for edge in team.get(f"{TEAM}/edges")] == ["ben"]


def test_a_part_of_a_graph_is_read_around_a_node(team: Codebolt) -> None:
    part = team.get(f"{TEAM}/subgraph?seedNodeId=cy&limit=2")
    near = team.post(f"{TEAM}/expand-node", {"nodeId": "ben", "excludeNodeIds": ["cy"]}, 200)
    out = team.post(f"{TEAM}/expand-node", {"nodeId": "ben", "direction": "outgoing"}, 200)

    assert sorted(names_of(part["nodes"])) == ["Ben", "Cy"]
    assert part["totalCounts"] == {"nodes": 3, "edges": 2} and part["hasMore"] is True
    assert "Ada" in names_of(near["nodes"]) and "Cy" not in names_of(near["nodes"])
    assert "Cy" in names_of(out["nodes"]) and "Ada" not in names_of(out["nodes"])


def test_templates_restrict_the_nodes_of_their_graphs(codebolt: Codebolt) -> None:
    kinds = {"person": {"fields": {"age": {"type": "number", "required": True}}}}
    template = codebolt.post(
        f"{KG}/instance-templates", {"id": "org", "name": "Org", "record_kinds": kinds}
    )
    codebolt.post(f"{KG}/instances", {"name": "team", "templateId": "org"})

    faults = codebolt.faults(422, "POST", f"{TEAM}/records", {"name": "Ada", "kind": "person"})

    assert template["record_kinds"] == kinds
    assert [path for path, _ in faults] == ["/attributes/age"]
    codebolt.post(f"{TEAM}/records", {"name": "Ada", "kind": "person", "attributes": {"age": 9}})
    changed = codebolt.expect(200, "PUT", f"{KG}/instance-templates?id=org", {"name": "All"})
    assert (changed["name"], changed["record_kinds"]) == ("All", kinds)
    assert codebolt.get(f"{KG}/instance-templates") == [changed]


def test_a_view_returns_the_rows_of_its_template(team: Codebolt) -> None:
    template = team.post(f"{KG}/view-templates", PEOPLE)
    view = team.post(f"{KG}/views", {"id": "v", "viewTemplateId": "people", "instanceId": "team"})

    rows = team.get(f"{KG}/views/v/execute")

    assert template["match"] == PEOPLE["match"] and template["return"] == PEOPLE["return"]
    assert (view["viewTemplateId"], view["instanceId"]) == ("people", "team")
    assert rows["columns"] == ["name"] and rows["total"] == 3
    assert sorted(row["name"] for row in rows["rows"]) == ["Ada", "Ben", "Cy"]
    assert team.get(f"{KG}/views?instanceId=team") == [view]
    assert team.expect(204, "DELETE", f"{KG}/views?id=v") is None
    assert team.get(f"{KG}/views") == []


def test_a_view_template_is_changed_and_deleted(codebolt: Codebolt) -> None:
    codebolt.post(f"{KG}/view-templates", PEOPLE)
    path = f"{KG}/view-templates?id=people"

    renamed = codebolt.expect(200, "PUT", path, {"name": "All"})
    query = {"match": {"alias": "b"}, "return": [{"expression": "b.id", "alias": "id"}], "limit": 5}
    changed = codebolt.expect(200, "PUT", path, query)

    assert (renamed["name"], renamed["match"]) == ("All", PEOPLE["match"])
    assert changed["match"]["alias"] == "b" and changed["limit"] == 5
    assert codebolt.get(f"{KG}/view-templates") == [changed]
    assert codebolt.expect(204, "DELETE", path) is None


def test_invalid_views_get_their_faults_at_the_fields_of_the_request(team: Codebolt) -> None:
    bad = PEOPLE | {"with": [{"expression": "a.name"}]}

    faults = team.faults(422, "POST", f"{KG}/view-templates", bad)
    missing = team.faults(422, "POST", f"{KG}/views", {"viewTemplateId": "x"})

    assert [path.split("/")[1] for path, _ in faults] == ["with"]
    assert missing == [("/instanceId", "required")]
    assert ("/id", "required") in team.faults(422, "DELETE", f"{KG}/views")
