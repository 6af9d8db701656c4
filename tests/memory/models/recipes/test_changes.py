"""recipes.changes: each change of the store as an event with the current object."""

from typing import Any

import pytest

from memrelay.memory.engine.store import Store
from memrelay.memory.errors import Refused
from tests.memory.builders import perform


def changes(tx: Store, after: int = 0, **wanted: Any) -> list[tuple[str, dict[str, Any]]]:
    return [
        (one.event, one.data) for one in perform(tx, "recipes.changes", after=after, **wanted).items
    ]


def names(found: list[tuple[str, dict[str, Any]]]) -> list[str]:
    return [name for name, _ in found]


def test_changes_of_a_graph_are_events_with_its_objects(tx: Store) -> None:
    perform(tx, "instances.create", sort="graph", name="team")
    people = [{"id": id_, "name": id_.title(), "kind": "person"} for id_ in ("ada", "ben")]
    perform(tx, "graph.add_nodes", instance="team", nodes=people)
    perform(tx, "graph.add_nodes", instance="team", nodes=[people[0] | {"id": "cy"}])
    edge = {"id": "e", "kind": "knows", "from_node_id": "ada", "to_node_id": "ben"}
    perform(tx, "graph.add_edges", instance="team", edges=[edge])
    perform(tx, "graph.delete_edge", instance="team", id="e")
    perform(tx, "graph.delete_node", instance="team", id="cy")

    found = changes(tx)

    assert names(found) == [
        f"knowledgeGraph:{name}"
        for name in (
            "instance-created",
            "records-added",
            "record-added",
            "edge-added",
            "edge-deleted",
            "record-deleted",
        )
    ]
    assert [one["id"] for one in found[1][1]["records"]] == ["ada", "ben"]
    assert found[2][1] == {"id": "cy", "instanceId": "team"}
    assert found[3][1] == {"id": "e", "instanceId": "team"}
    assert found[4][1] == edge | {"instanceId": "team"}
    assert (found[5][1]["id"], found[5][1]["name"]) == ("cy", "Ada")


def test_pages_continue_without_a_gap(tx: Store) -> None:
    ids = [f"r{number}" for number in range(5)]
    for id_ in ids:
        perform(tx, "recipes.create", definition={"id": id_, "label": id_})

    seen, page = list[str](), perform(tx, "recipes.changes", limit=2)
    while page.items:
        seen += [one.data["id"] for one in page.items]
        page = perform(tx, "recipes.changes", after=page.next, limit=2)

    assert (seen, page.next) == (ids, page.last)
    with pytest.raises(Refused, match=f"the last change is {page.last}"):
        changes(tx, page.last + 1)


def test_a_deleted_key_value_store_leaves_events_with_ids(tx: Store) -> None:
    given = {"instance": "app", "namespace": "n", "key": "k"}
    perform(tx, "kv.set", value=1, auto_create=True, **given)
    perform(tx, "kv.delete", **given)
    perform(tx, "instances.delete", sort="kv", id="app")

    found = changes(tx)

    ids = {"instanceId": "app", "namespace": "n", "key": "k"}
    assert found[1:3] == [
        ("kvStore:record-set", ids | {"value": None}),
        ("kvStore:record-deleted", ids),
    ]
    assert found[3] == ("kvStore:instance-deleted", {"id": "app", "name": "app"})


def test_a_large_object_is_sent_without_its_value(tx: Store) -> None:
    perform(
        tx,
        "kv.set",
        instance="app",
        namespace="n",
        key="k",
        value="x" * 2000,
        auto_create=True,
    )

    found = changes(tx, result_bytes=2000)

    ids = {"instanceId": "app", "namespace": "n", "key": "k"}
    assert found[1] == ("kvStore:record-set", ids)
