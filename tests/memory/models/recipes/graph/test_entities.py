"""Entities are nodes of the graph `mcp`, with their observations in the content."""

from pathlib import Path
from typing import Any

import pytest

from memrelay.memory.engine.store import Store
from memrelay.memory.errors import RecordNotFound
from tests.memory.builders import RECIPES_ID, make_store, perform
from tests.memory.models.recipes.test_source_copies import OTHER_ID, lines_of

SECRET = 'the "key"\nis 7'
ADA: dict[str, Any] = {
    "name": "Ada",
    "entity_type": "person",
    "observations": ["likes tea", SECRET, "", "é\n"],
}
LONG_NAME = "two\nlines " + "x" * 1000


@pytest.fixture
def store(tmp_path: Path) -> Any:
    store = make_store(tmp_path, RECIPES_ID)
    call(store, "create_entities", entities=[ADA, ADA | {"name": LONG_NAME, "observations": []}])
    relation = {"from_entity": "Ada", "to_entity": "nobody", "relation_type": "knows"}
    call(store, "create_relations", relations=[relation])
    yield store
    store.close()


def call(store: Store, name: str, /, **given: Any) -> Any:
    with store.transaction() as tx:
        return perform(tx, name if "." in name else f"knowledge_graph.{name}", **given)


def graph_of(store: Store) -> Any:
    return call(store, "read")


def test_an_entity_is_a_node_and_a_relation_an_edge(store: Store) -> None:
    node = call(store, "graph.get_node", instance="mcp", id="Ada")
    edges = call(store, "graph.list_edges", instance="mcp").items

    assert (node.name, node.kind) == ("Ada", "person")
    assert node.attributes == {"observations": ADA["observations"]}
    assert [(edge.from_node_id, edge.kind, edge.to_node_id) for edge in edges] == [
        ("Ada", "knows", "nobody")
    ]


def test_an_update_of_the_node_keeps_the_observations(store: Store) -> None:
    call(store, "graph.update_node", instance="mcp", id="Ada", kind="poet", name="Ada L.")

    entity, _ = graph_of(store).entities
    assert (entity.name, entity.entity_type) == ("Ada", "poet")
    assert entity.observations == tuple(ADA["observations"])


def test_attributes_of_the_node_do_not_mix_with_observations(store: Store) -> None:
    attributes = {"born": "1815", "observations": ["new", "a\nb"], "n": 1}
    call(store, "graph.update_node", instance="mcp", id="Ada", attributes=attributes)

    added = {"entity": "Ada", "observations": ["more"]}
    call(store, "add_observations", items=[added])

    assert graph_of(store).entities[0].observations == ("new", "a\nb", "more")


def test_nodes_of_another_graph_keep_observations_as_an_attribute(store: Store) -> None:
    call(store, "instances.create", sort="graph", name="team")
    node = {"id": "x", "name": "X", "kind": "k", "attributes": {"observations": ["a"]}}
    call(store, "graph.add_nodes", instance="team", nodes=[node])

    found = call(store, "graph.get_node", instance="team", id="x")

    assert found.attributes == {"observations": ["a"]}
    assert [entity.name for entity in graph_of(store).entities] == ["Ada", LONG_NAME]


def test_a_search_of_records_finds_observations(store: Store) -> None:
    found = call(store, "records.search", query="tea")

    assert [hit.record.key for hit in found.items] == ["Ada"]


def test_the_history_keeps_deleted_observations(store: Store) -> None:
    deleted = {"entity": "Ada", "observations": ["likes tea"]}
    call(store, "delete_observations", items=[deleted, deleted])

    (hit,) = call(store, "records.search", query="key").items
    history = call(store, "records.history", guid=hit.record.guid).items
    assert ["likes tea" in version.record.content for version in history] == [False, True]


def test_a_call_without_a_change_makes_no_version(store: Store) -> None:
    before = call(store, "graph.get_node", instance="mcp", id="Ada").version

    call(store, "add_observations", items=[{"entity": "Ada", "observations": ["likes tea"]}])
    call(store, "delete_observations", items=[{"entity": "Ada", "observations": ["other"]}])

    assert call(store, "graph.get_node", instance="mcp", id="Ada").version == before


def test_an_erasure_deletes_entities_that_quote_the_text(store: Store) -> None:
    call(store, "records.erase", text=SECRET)

    graph = graph_of(store)
    assert [entity.name for entity in graph.entities] == [LONG_NAME]
    assert graph.relations == ()


def test_an_import_gives_another_pipeline_an_equal_graph(store: Store, tmp_path: Path) -> None:
    other = make_store(tmp_path, OTHER_ID)

    call(other, "records.import", lines=lines_of(store, tmp_path))

    assert graph_of(other) == graph_of(store)
    other.close()


def test_a_deleted_graph_has_no_entities(store: Store) -> None:
    call(store, "instances.delete", sort="graph", id="mcp")

    assert graph_of(store).entities == graph_of(store).relations == ()
    with pytest.raises(RecordNotFound, match=r"^Entity with name Ada not found$"):
        call(store, "add_observations", items=[{"entity": "Ada", "observations": ["x"]}])


def test_changes_of_the_graph_are_in_the_feed(store: Store) -> None:
    relation = {"from_entity": "Ada", "to_entity": "nobody", "relation_type": "knows"}
    call(store, "delete_relations", relations=[relation])
    call(store, "delete_entities", names=["Ada"])

    types = [change.type for change in call(store, "changes.list").items]

    assert types == [
        "record.created",  # the graph
        "record.created",
        "record.created",
        "nodes.added",
        "edge.added",
        "edge.deleted",
        "record.deleted",
    ]
