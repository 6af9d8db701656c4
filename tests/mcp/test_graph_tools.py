"""The toolset `graph` on a store file."""

from collections.abc import Iterator

import pytest

from memrelay.web.mcp.tools.graph import GRAPH_TOOLS
from tests.mcp.targets import JsonObject, ToolClient, tools_on_a_file

ADA: JsonObject = {"name": "Ada", "entityType": "person", "observations": ["Likes tea", "a\nb"]}
BEN: JsonObject = {"name": "Ben", "entityType": "person", "observations": []}
KNOWS: JsonObject = {"from": "Ada", "to": "Ben", "relationType": "knows"}
OWNS: JsonObject = {"from": "Ben", "to": "a house", "relationType": "owns"}
EMPTY: JsonObject = {"entities": [], "relations": []}


@pytest.fixture
def client() -> Iterator[ToolClient]:
    with tools_on_a_file(GRAPH_TOOLS) as client:
        yield client


@pytest.fixture
def graph(client: ToolClient) -> ToolClient:
    """Return the client of a graph with two entities and two relations."""
    client.use("create_entities", entities=[ADA, BEN])
    client.use("create_relations", relations=[KNOWS, OWNS])
    return client


def test_a_new_store_has_an_empty_graph(client: ToolClient) -> None:
    assert client.use("read_graph") == EMPTY
    assert client.use("search_nodes", query="") == EMPTY
    assert client.use("open_nodes", names=["Ada"]) == EMPTY
    assert client.use("delete_entities", entityNames=["Ada"])["success"]
    assert client.text("read_graph") == '{\n  "entities": [],\n  "relations": []\n}'


def test_only_new_entities_and_relations_are_returned(graph: ToolClient) -> None:
    cy = {"name": "Cy", "entityType": "cat", "observations": ["x", "x"]}

    created = graph.use("create_entities", entities=[ADA | {"entityType": "other"}, cy, cy])
    related = graph.use("create_relations", relations=[KNOWS, OWNS, KNOWS | {"to": "Cy"}])

    assert created == {"entities": [cy]}
    assert related == {"relations": [KNOWS | {"to": "Cy"}]}
    assert graph.use("read_graph")["entities"] == [ADA, BEN, cy]


def test_unknown_keys_of_an_input_are_ignored(client: ToolClient) -> None:
    created = client.use("create_entities", entities=[ADA | {"extra": 1}], more=2)

    assert created == {"entities": [ADA]}


def test_observations_are_added_once_and_deleted(graph: ToolClient) -> None:
    given = [
        {"entityName": "Ada", "contents": ["Likes tea", "new"]},
        {"entityName": "Ada", "contents": ["new", "a\nb\n"]},
        {"entityName": "Ben", "contents": []},
    ]

    added = graph.use("add_observations", observations=given)

    assert [one["addedObservations"] for one in added["results"]] == [["new"], ["a\nb\n"], []]
    deleted = [{"entityName": name, "observations": ["new", "Likes tea"]} for name in ("Ada", "x")]
    message = graph.text("delete_observations", deletions=deleted)
    assert message == "Observations deleted successfully"
    assert graph.use("open_nodes", names=["Ada"])["entities"][0]["observations"] == [
        "a\nb",
        "a\nb\n",
    ]


def test_an_unknown_entity_undoes_the_whole_call(graph: ToolClient) -> None:
    given = [{"entityName": name, "contents": ["x"]} for name in ("Ada", "Nobody")]

    assert graph.fail("add_observations", observations=given) == (
        "Entity with name Nobody not found"
    )
    assert graph.use("open_nodes", names=["Ada"])["entities"] == [ADA]


def test_a_deleted_entity_loses_its_relations_and_can_be_created_again(graph: ToolClient) -> None:
    graph.use("delete_entities", entityNames=["Ada", "Ada", "a house"])

    assert graph.use("read_graph") == {"entities": [BEN], "relations": []}
    graph.use("create_entities", entities=[ADA])
    assert graph.use("read_graph")["entities"] == [BEN, ADA]


def test_relations_are_deleted_by_all_three_fields(graph: ToolClient) -> None:
    others = [KNOWS | {"relationType": "likes"}, KNOWS | {"to": "Ada"}]

    message = graph.text("delete_relations", relations=[*others, OWNS])

    assert message == "Relations deleted successfully"
    assert graph.use("read_graph")["relations"] == [KNOWS]


@pytest.mark.parametrize(
    ("query", "names"),
    [("TEA", ["Ada"]), ("PERSON", ["Ada", "Ben"]), ("ben", ["Ben"]), ("", ["Ada", "Ben"])],
)
def test_a_search_finds_parts_of_texts_in_any_case(
    graph: ToolClient, query: str, names: list[str]
) -> None:
    found = graph.use("search_nodes", query=query)

    assert [one["name"] for one in found["entities"]] == names
    assert KNOWS in found["relations"]
    assert (OWNS in found["relations"]) is ("Ben" in names)


def test_opened_entities_come_in_the_order_of_creation(graph: ToolClient) -> None:
    found = graph.use("open_nodes", names=["Ben", "Ada", "Nobody"])

    assert found == {"entities": [ADA, BEN], "relations": [KNOWS, OWNS]}


def test_a_graph_that_is_too_long_for_a_model_is_refused(graph: ToolClient) -> None:
    long = [{"name": f"n{at}", "entityType": "t", "observations": ["x" * 800]} for at in range(100)]
    graph.use("create_entities", entities=long)

    text = graph.fail("read_graph")

    assert "75,000 is the limit: 102 entities" in text and "call search_nodes" in text
    assert graph.use("open_nodes", names=["n7"])["entities"] == [long[7]]


def test_an_entity_may_have_more_text_than_data_can_hold(client: ToolClient) -> None:
    long = ADA | {"observations": [f"{at} " + "é\n" * 60 for at in range(400)]}
    client.use("create_entities", entities=[long])

    client.use("add_observations", observations=[{"entityName": "Ada", "contents": ["end"]}])

    deleted = [{"entityName": "Ada", "observations": long["observations"][1:]}]
    client.use("delete_observations", deletions=deleted)
    (ada,) = client.use("read_graph")["entities"]
    assert ada["observations"] == [long["observations"][0], "end"]


@pytest.mark.parametrize(
    ("entity", "rule"),
    [
        (ADA | {"name": ""}, "at least 1 character"),
        (ADA | {"name": "a\0"}, "must match pattern"),
        (ADA | {"observations": ["x" * 1_048_577]}, "1,048,576 characters in its observations"),
        (ADA | {"observations": ["x"] * 10_001}, "at most 10000 items"),
    ],
)
def test_an_invalid_entity_is_refused(client: ToolClient, entity: JsonObject, rule: str) -> None:
    assert rule in client.fail("create_entities", entities=[entity])
    assert client.use("read_graph") == EMPTY
