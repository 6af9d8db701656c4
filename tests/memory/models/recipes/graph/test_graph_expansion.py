"""The graph steps of recipes, and walks compared with a reference in plain Python."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memrelay.memory.engine.store import Store
from memrelay.memory.models.recipes.graph.subgraph import Direction, Walk, walk
from memrelay.memory.models.recipes.step import Items, StepFailed
from tests.memory.builders import fresh_store, perform
from tests.memory.models.recipes.graph.graphs import (
    PEOPLE,
    TEAM,
    Plain,
    ends_of,
    fill_graph,
    make_graph,
    make_view,
    run_step,
)

OWNED = {
    "match": {"alias": "a", "recordKind": "person"},
    "patterns": [
        {"from": "a", "edge": "owns", "to": {"alias": "s"}},
        {"from": "s", "edge": "uses", "to": {"alias": "d"}},
    ],
    "return": ["d.name"],
}


def read_people(tx: Store) -> Items:
    fill_graph(tx, TEAM)
    make_view(tx, PEOPLE)
    items: Items = run_step(tx, "graph_view_read", viewId="people")[0]
    return items


def ids_of(items: Items) -> str:
    return " ".join(item["id"] for item in items)


def test_a_view_is_read_as_items(tx: Store) -> None:
    assert read_people(tx)[0] == {"id": "ada", "text": "Ada", "name": "Ada", "instance": "team"}


def test_neighbors_come_breadth_first_with_their_score(tx: Store) -> None:
    seeds = read_people(tx)[:1]

    found, _ = run_step(tx, "graph_neighbor_expand", seeds, depth=2, direction="outgoing")

    assert [item["name"] for item in found] == ["Ada", "Ben", "API", "Cy", "DB"]
    assert [item.get("score") for item in found] == [None, 0.5, 0.5, 0.3333, 0.3333]
    assert found[3] == {
        "id": "cy",
        "text": "Cy",
        "name": "Cy",
        "kind": "person",
        "attributes": {},
        "instance": "team",
        "distance": 2,
        "from": "ada",
        "via": {"edge": "knows", "from": "ben", "direction": "outgoing"},
        "score": 0.3333,
    }


@pytest.mark.parametrize(
    ("given_", "ids"),
    [
        ({}, "ben ada cy"),
        ({"direction": "incoming"}, "ben ada"),
        ({"edges": ["owns"], "depth": 3}, "ben"),
        ({"includeSeeds": False}, "ada cy"),
        ({"limit": 1}, "ben ada"),
        ({"depth": 3}, "ben ada cy api db"),
    ],
)
def test_an_expansion_follows_its_parameters(tx: Store, given_: dict[str, Any], ids: str) -> None:
    seeds = read_people(tx)[1:2]

    assert ids_of(run_step(tx, "graph_neighbor_expand", seeds, **given_)[0]) == ids


def test_items_of_other_sources_need_the_graph(tx: Store) -> None:
    read_people(tx)
    seeds = [{"id": "cy", "text": "x"}, {"id": "unknown", "text": "y"}]

    found, warnings = run_step(tx, "graph_neighbor_expand", seeds)
    assert (found, [code for code, _ in warnings]) == (seeds, ["no_instance"])

    found, _ = run_step(tx, "graph_neighbor_expand", seeds, instance="team")
    assert ids_of(found) == "cy unknown ben"


def test_a_view_expands_each_item(tx: Store) -> None:
    people = read_people(tx)
    make_view(tx, OWNED, "owned")

    found, _ = run_step(tx, "graph_view_expand", people, viewId="owned")

    assert found[:3] == people and len(found) == 4
    assert found[3] == {
        "id": "db",
        "text": "DB",
        "name": "DB",
        "kind": "service",
        "attributes": {},
        "instance": "team",
        "distance": 1,
        "from": "ada",
        "via": "owned",
    }


def test_a_view_without_patterns_adds_nothing(tx: Store) -> None:
    people = read_people(tx)

    found, warnings = run_step(tx, "graph_view_expand", people, viewId="people")

    assert (found, [code for code, _ in warnings]) == (people, ["no_patterns"])


@pytest.mark.parametrize(
    ("name", "given_", "code"),
    [
        ("graph_view_read", {"viewId": "none"}, "unknown_view"),
        ("graph_view_expand", {"viewId": "none"}, "unknown_view"),
        ("graph_neighbor_expand", {"instance": "none"}, "unknown_instance"),
    ],
)
def test_an_unknown_name_fails_the_step(
    tx: Store, name: str, given_: dict[str, Any], code: str
) -> None:
    with pytest.raises(StepFailed) as caught:
        run_step(tx, name, [], **given_)
    assert caught.value.code == code


def test_the_text_of_a_node_comes_from_its_attributes(tx: Store) -> None:
    make_graph(tx)
    nodes = [
        {"id": "a", "name": "A", "kind": "note", "attributes": {"summary": "sum", "title": "t"}},
        {"id": "b", "name": "B", "kind": "note", "attributes": {"text": {"x": 1}}},
    ]
    perform(tx, "graph.add_nodes", instance="team", nodes=nodes)
    edge = {"kind": "e", "from_node_id": "a", "to_node_id": "b"}
    perform(tx, "graph.add_edges", instance="team", edges=[edge])

    seeds = [{"id": "a", "instance": "team"}]
    found, _ = run_step(tx, "graph_neighbor_expand", seeds, includeSeeds=False)
    back, _ = run_step(tx, "graph_neighbor_expand", found, includeSeeds=False)

    assert [item["text"] for item in (*found, *back)] == ['{"x":1}', "sum"]


def neighbors(graph: Plain, node: str, how: Walk) -> list[str]:
    return [
        far
        for kind, start, end in graph.edges
        for near, far in ends_of(how.direction, start, end)
        if near == node and (not how.kinds or kind in how.kinds)
    ]


def reach(graph: Plain, seeds: list[str], how: Walk) -> list[tuple[str, int]]:
    """Return the reached nodes with their distance, level by level."""
    seen, level, found = list(seeds), list(seeds), list[tuple[str, int]]()
    for distance in range(1, how.depth + 1):
        reached = list[str]()
        for node in level:
            fresh = [far for far in neighbors(graph, node, how) if far not in seen]
            reached += dict.fromkeys(fresh)
            seen += fresh
        found += [(node, distance) for node in reached]
        level = reached
    return found


IDS = st.sampled_from("abcdef")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("ef"), IDS, IDS), max_size=12),
    st.lists(IDS, min_size=1, max_size=3, unique=True),
    st.sampled_from(["outgoing", "incoming", "both"]),
    st.integers(1, 4),
    st.sampled_from([(), ("e",), ("e", "f")]),
)
def test_walks_over_random_graphs_reach_the_nodes_of_the_reference(
    edges: list[tuple[str, str, str]],
    seeds: list[str],
    direction: Direction,
    depth: int,
    kinds: tuple[str, ...],
) -> None:
    graph = Plain([(id_, "k", {}) for id_ in "abcdef"], edges)
    how = Walk(kinds, direction, depth)
    with fresh_store() as store, store.transaction() as tx:
        fill_graph(tx, graph)
        found = [(step.state.key, step.distance) for step in walk(tx, "team", seeds, how)]
    assert found == reach(graph, seeds, how)
