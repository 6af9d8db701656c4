"""Graphs: nodes, edges, templates, subgraphs and changes of the feed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from memrelay.memory.engine.store import Store
from memrelay.memory.errors import (
    InvalidInput,
    NameTaken,
    RecordNotFound,
    Refused,
    VersionConflict,
)
from memrelay.memory.models.recipes.table import RecipeTables
from tests.memory.builders import RECIPES_ID, assert_sound, make_store, perform
from tests.memory.models.recipes.graph.graphs import PEOPLE, TEAM, fill_graph, make_graph, make_view

ORG = {
    "record_kinds": {
        "Person": {
            "fields": {
                "age": {"type": "integer", "required": True},
                "born": {"type": "date"},
            }
        },
        "Team": {},
    },
    "edge_types": {"IN": {"from": "Person", "to": "Team"}},
}


@pytest.fixture
def tx(tmp_path: Path) -> Iterator[Store]:
    store = make_store(tmp_path, RECIPES_ID)
    with store.transaction() as tx:
        yield tx
    store.close()
    assert_sound(store.path)


def add(tx: Store, *nodes: dict[str, Any], graph: str = "team") -> Any:
    return perform(tx, "graph.add_nodes", instance=graph, nodes=nodes).items


def connect(tx: Store, *edges: tuple[str, str, str]) -> Any:
    given = [{"kind": kind, "from_node_id": a, "to_node_id": b} for kind, a, b in edges]
    return perform(tx, "graph.add_edges", instance="team", edges=given).items


def faults_of(tx: Store, operation: str, /, **given: Any) -> list[tuple[str, str]]:
    with pytest.raises(InvalidInput) as caught:
        perform(tx, operation, **given)
    return [(fault.path, fault.code) for fault in caught.value.faults]


def changes_after(tx: Store, n: int) -> list[tuple[str, str, Any]]:
    return [
        (change.type, change.subject, change.data and orjson.loads(change.data))
        for change in tx.feed.after(n, 1000)
        if not change.type.startswith("record.")
    ]


def node_page(tx: Store, **wanted: Any) -> Any:
    return perform(tx, "graph.list_nodes", instance="team", **wanted)


def test_a_node_is_stored_as_given_and_listed_by_id(tx: Store) -> None:
    make_graph(tx)

    node = add(tx, {"name": "B", "kind": "k", "attributes": {"x": [1]}, "valid_to": "2030-01-01"})[
        0
    ]
    add(tx, {"id": "a", "name": "A", "kind": "l"})

    assert perform(tx, "graph.get_node", instance="team", id=node.id) == node
    assert (node.attributes, node.valid_from, node.valid_to) == ({"x": [1]}, None, "2030-01-01")
    assert {one.id for one in node_page(tx).items} == {"a", node.id}
    assert [one.id for one in node_page(tx, kind="l").items] == ["a"]
    assert node_page(tx, kind="l").total == 1


def test_pages_of_nodes_and_edges_have_each_once(tx: Store) -> None:
    fill_graph(tx, TEAM)
    ids, cursor = list[str](), ""
    while cursor is not None:
        page = node_page(tx, limit=2, cursor=cursor)
        ids += [node.id for node in page.items]
        cursor = page.next_cursor
    first = perform(tx, "graph.list_edges", instance="team", limit=3)
    rest = perform(tx, "graph.list_edges", instance="team", cursor=first.next_cursor)

    assert ids == ["ada", "api", "ben", "cy", "db"]
    assert [edge.kind for edge in (*first.items, *rest.items)] == ["knows", "knows", "owns", "uses"]
    assert (first.total, rest.next_cursor) == (4, None)
    assert (
        perform(tx, "graph.list_edges", instance="team", to_node_id="cy", kind="knows").total == 1
    )


def test_an_invalid_node_adds_none_and_names_every_fault(tx: Store) -> None:
    make_graph(tx)
    deep: Any = 1
    for _ in range(20):
        deep = {"a": deep}
    nodes = [
        {"name": "ok", "kind": "k"},
        {"name": "x", "kind": "a\nb"},
        {"name": "y", "kind": "k", "valid_from": "soon", "attributes": deep},
        {"name": "z", "kind": "k", "id": "\t"},
    ]

    faults = faults_of(tx, "graph.add_nodes", instance="team", nodes=nodes)

    assert [path.split("/")[2] for path, _ in faults] == ["1", "2", "2", "3"]
    assert node_page(tx).total == 0


def test_ids_are_unique_within_the_graph(tx: Store) -> None:
    fill_graph(tx, TEAM)
    edge = {"id": "e", "kind": "k", "from_node_id": "ada", "to_node_id": "ada"}
    perform(tx, "graph.add_edges", instance="team", edges=[edge])

    with pytest.raises(NameTaken, match="ada"):
        add(tx, {"id": "new", "name": "n", "kind": "k"}, {"id": "ada", "name": "n", "kind": "k"})
    with pytest.raises(NameTaken, match="twice"):
        add(tx, {"id": "n", "name": "n", "kind": "k"}, {"id": "n", "name": "n", "kind": "k"})
    with pytest.raises(NameTaken, match="edges e"):
        perform(tx, "graph.add_edges", instance="team", edges=[edge])
    make_graph(tx, "other")
    add(tx, {"id": "ada", "name": "n", "kind": "k"}, graph="other")
    assert node_page(tx).total == 5


def test_an_edge_needs_both_nodes(tx: Store) -> None:
    fill_graph(tx, TEAM)
    edges = [{"kind": "k", "from_node_id": "x", "to_node_id": "y"}]

    faults = faults_of(tx, "graph.add_edges", instance="team", edges=edges)

    assert [path for path, _ in faults] == ["/edges/0/from_node_id", "/edges/0/to_node_id"]


def test_a_deleted_node_loses_its_edges(tx: Store) -> None:
    fill_graph(tx, TEAM)

    perform(tx, "graph.delete_node", instance="team", id="ben")

    assert perform(tx, "graph.list_edges", instance="team").total == 2
    with pytest.raises(RecordNotFound):
        perform(tx, "graph.get_node", instance="team", id="ben")


def test_an_update_keeps_omitted_fields_and_needs_the_version(tx: Store) -> None:
    make_graph(tx)
    node = add(tx, {"id": "a", "name": "A", "kind": "k", "valid_from": "2020-01-01"})[0]

    changed = perform(
        tx, "graph.update_node", instance="team", id="a", name="B", if_version=[node.version]
    )
    cleared = perform(tx, "graph.update_node", instance="team", id="a", valid_from="")

    assert (changed.name, changed.kind, changed.valid_from) == ("B", "k", "2020-01-01")
    assert cleared.valid_from is None
    with pytest.raises(VersionConflict):
        perform(
            tx, "graph.update_node", instance="team", id="a", name="C", if_version=[node.version]
        )


def test_nodes_and_edges_fit_the_template(tx: Store) -> None:
    perform(tx, "graph_templates.create", id="org", name="org", **ORG)
    make_graph(tx, template_id="org")
    good = {"id": "p", "name": "p", "kind": "Person", "attributes": {"age": 3, "extra": 1}}
    add(tx, good, {"id": "t", "name": "t", "kind": "Team"})
    bad = [
        {"name": "a", "kind": "Persn"},
        {"name": "b", "kind": "Person"},
        {"name": "c", "kind": "Person", "attributes": {"age": True, "born": "soon"}},
    ]

    assert faults_of(tx, "graph.add_nodes", instance="team", nodes=bad) == [
        ("/nodes/0/kind", "unknown_kind"),
        ("/nodes/1/attributes/age", "missing_field"),
        ("/nodes/2/attributes/age", "bad_type"),
        ("/nodes/2/attributes/born", "bad_type"),
    ]
    connect(tx, ("IN", "p", "t"))
    with pytest.raises(InvalidInput, match='kind "Person" here, not "Team"'):
        connect(tx, ("IN", "t", "t"))
    with pytest.raises(InvalidInput, match='did you mean "IN"'):
        connect(tx, ("INN", "p", "t"))
    with pytest.raises(InvalidInput, match="does not fit"):
        perform(tx, "graph.update_node", instance="team", id="p", kind="Team")
    with pytest.raises(Refused, match="team use the template"):
        perform(tx, "graph_templates.delete", id="org")


def test_an_invalid_template_names_every_fault(tx: Store) -> None:
    faults = faults_of(
        tx,
        "graph_templates.create",
        name="t",
        record_kinds={"A": {"fields": {"x": {"type": "strin"}}}, "B": 1},
        edge_types={"E": {"from": "C"}},
    )

    assert faults == [
        ("/record_kinds/A/fields/x/type", "bad_enum"),
        ("/record_kinds/B", "bad_type"),
        ("/edge_types/E/from", "unknown_kind"),
        ("/edge_types/E/to", "required"),
    ]


def test_templates_are_changed_listed_and_deleted(tx: Store) -> None:
    made = perform(tx, "graph_templates.create", id="org", name="org", **ORG)

    changed = perform(tx, "graph_templates.update", id="org", name="new", if_version=[made.version])

    assert (changed.name, changed.edge_types) == ("new", ORG["edge_types"])
    assert perform(tx, "graph_templates.get", id="org") == changed
    assert perform(tx, "graph_templates.list").items == (changed,)
    with pytest.raises(NameTaken):
        perform(tx, "graph_templates.create", id="org", name="org")
    perform(tx, "graph_templates.delete", id="org")
    assert perform(tx, "graph_templates.list").items == ()


def test_a_subgraph_has_the_edges_between_its_nodes(tx: Store) -> None:
    fill_graph(tx, TEAM)

    whole = perform(tx, "graph.subgraph", instance="team")
    near = perform(tx, "graph.subgraph", instance="team", seed_node_id="cy", limit=3)

    assert (len(whole.nodes), len(whole.edges), whole.has_more) == (5, 4, False)
    assert [node.id for node in near.nodes] == ["cy", "ben", "ada"]
    assert (len(near.edges), near.total_counts.nodes, near.has_more) == (2, 5, True)


def test_an_expansion_leaves_out_known_nodes(tx: Store) -> None:
    fill_graph(tx, TEAM)

    found = perform(
        tx, "graph.expand", instance="team", node_id="ada", exclude_node_ids=["ben"], limit=1
    )
    incoming = perform(tx, "graph.expand", instance="team", node_id="ada", direction="incoming")

    assert ([node.id for node in found.nodes], [edge.kind for edge in found.edges]) == (
        ["api"],
        ["owns"],
    )
    assert (found.total_counts.nodes, found.total_counts.edges, found.has_more) == (2, 2, False)
    assert incoming.nodes == ()


def test_each_call_adds_one_explicit_change(tx: Store) -> None:
    make_graph(tx)
    before = tx.feed.last
    add(tx, {"id": "a", "name": "a", "kind": "k"})
    add(tx, {"id": "b", "name": "b", "kind": "k"}, {"id": "c", "name": "c", "kind": "k"})
    one = connect(tx, ("e", "a", "b"))[0].id
    two = [edge.id for edge in connect(tx, ("e", "b", "c"), ("e", "c", "a"))]
    perform(tx, "graph.delete_edge", instance="team", id=one)
    make_view(tx, PEOPLE)
    perform(tx, "graph.delete_node", instance="team", id="a")

    assert changes_after(tx, before) == [
        ("node.added", "team", {"ids": ["a"]}),
        ("nodes.added", "team", {"ids": ["b", "c"]}),
        ("edge.added", "team", {"ids": [one]}),
        ("edges.added", "team", {"ids": two}),
        (
            "edge.deleted",
            "team",
            {"id": one, "kind": "e", "from_node_id": "a", "to_node_id": "b"},
        ),
        ("view.created", "people", None),
    ]


def test_a_deleted_graph_leaves_no_row(tx: Store) -> None:
    fill_graph(tx, TEAM)
    fill_graph(tx, TEAM, "other")
    make_view(tx, PEOPLE)

    assert perform(tx, "instances.get", sort="graph", id="team").edge_count == 4
    perform(tx, "instances.delete", sort="graph", id="team")

    table = tx.table(RecipeTables).graph
    assert (table.count_nodes("team"), table.count_edges("team"), table.views()) == (0, 0, [])
    assert (table.count_nodes("other"), table.count_edges("other")) == (5, 4)
