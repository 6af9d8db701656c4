"""Views of graphs: rows, conditions, orders, faults of queries, and a reference in plain Python."""

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memrelay.memory.engine.store import Store
from memrelay.memory.errors import InvalidInput, RecordNotFound, Refused, SearchTooLong
from memrelay.memory.models.recipes.graph.view_query import parse_query
from tests.memory.builders import fresh_store, perform
from tests.memory.models.recipes.graph.graphs import (
    PEOPLE,
    TEAM,
    Plain,
    expected_rows,
    fill_graph,
    make_view,
)

SERVERS = Plain(
    [
        ("s1", "server", {"cpu": 8, "os": "linux", "tags": ["eu", "prod"], "up": True}),
        ("s2", "server", {"cpu": 16, "os": "Linux-LTS", "tags": ["us"], "up": False}),
        ("s3", "server", {"cpu": "8", "os": None, "place": {"city": "Oslo"}}),
        ("s4", "server", {"cpu": 8.5, "os": "macos"}),
    ],
    [],
)


def rows_of(tx: Store, query: dict[str, Any], id_: str = "v") -> list[dict[str, Any]]:
    make_view(tx, query, id_)
    return list(perform(tx, "graph_views.execute", id=id_).rows)


def servers_where(tx: Store, *where: dict[str, Any]) -> str:
    fill_graph(tx, SERVERS)
    query = {
        "match": {"alias": "s", "recordKind": "server"},
        "where": where,
        "return": [{"expression": "s.id", "alias": "id"}],
    }
    return " ".join(row["id"] for row in rows_of(tx, query))


def fault_of(query: dict[str, Any]) -> list[tuple[str, str]]:
    with pytest.raises(InvalidInput) as caught:
        parse_query(query)
    return [(fault.path.removeprefix("/query"), fault.code) for fault in caught.value.faults]


def test_a_view_has_the_rows_in_the_order_of_the_nodes(tx: Store) -> None:
    fill_graph(tx, TEAM)
    make_view(tx, PEOPLE)

    found = perform(tx, "graph_views.execute", id="people")

    assert found.columns == ("name",)
    assert found.rows == ({"name": "Ada"}, {"name": "Ben"}, {"name": "Cy"})
    assert found.total == 3


def test_patterns_follow_edges_in_their_direction(tx: Store) -> None:
    fill_graph(tx, TEAM)
    query = {
        "match": {"alias": "a", "recordKind": "person"},
        "patterns": [
            {"from": "a", "edge": "owns", "to": {"alias": "s"}, "direction": "outgoing"},
            {"from": "s", "edge": "uses", "to": {"alias": "d", "recordKind": "service"}},
            {"from": "a", "edge": "knows", "to": {"alias": "f"}, "direction": "both"},
        ],
        "return": ["a.name", "s.name", "d.id", "f.kind"],
    }

    assert rows_of(tx, query) == [
        {"a.name": "Ada", "s.name": "API", "d.id": "db", "f.kind": "person"}
    ]


@pytest.mark.parametrize(
    ("attribute", "operator", "value", "ids"),
    [
        ("cpu", "=", 8, "s1"),
        ("cpu", "!=", 8, "s2 s3 s4"),
        ("cpu", "<>", 8, "s2 s3 s4"),
        ("cpu", ">", 8, "s2 s4"),
        ("cpu", ">=", 8, "s1 s2 s4"),
        ("cpu", "<", 9, "s1 s4"),
        ("cpu", "<=", "8", "s3"),
        ("os", "CONTAINS", "inux", "s1 s2"),
        ("tags", "CONTAINS", "eu", "s1"),
        ("os", "STARTS WITH", "Lin", "s2"),
        ("os", "ENDS WITH", "os", "s4"),
        ("os", "IN", ["linux", "macos"], "s1 s4"),
        ("os", "NOT IN", ["linux", "macos"], "s2 s3"),
        ("os", "IS NULL", None, "s3"),
        ("os", "IS NOT NULL", None, "s1 s2 s4"),
        ("up", "=", True, "s1"),
        ("place.city", "=", "Oslo", "s3"),
        ("id", "IN", ["s2", "s4"], "s2 s4"),
        ("name", "=", "s1' OR 1=1 --", ""),
    ],
)
def test_a_condition_compares_without_conversion(
    tx: Store, attribute: str, operator: str, value: Any, ids: str
) -> None:
    condition = {"expression": f"s.{attribute}", "operator": operator, "value": value}

    assert servers_where(tx, condition) == ids


def test_all_conditions_must_hold(tx: Store) -> None:
    of_cpu = {"expression": "s.cpu", "operator": ">=", "value": 8}
    of_os = {"expression": "s.os", "operator": "CONTAINS", "value": "inux"}

    assert servers_where(tx, of_cpu, of_os) == "s1 s2"


def test_rows_are_ordered_skipped_and_limited(tx: Store) -> None:
    fill_graph(tx, SERVERS)
    query = {
        "match": {"alias": "s"},
        "orderBy": [{"expression": "s.os", "direction": "desc"}],
        "skip": 1,
        "limit": 2,
        "return": ["s.id", "s.os", "s.tags", "s.up"],
    }
    make_view(tx, query)

    found = perform(tx, "graph_views.execute", id="people")

    assert [row["s.id"] for row in found.rows] == ["s1", "s2"]
    assert found.rows[0] == {"s.id": "s1", "s.os": "linux", "s.tags": ["eu", "prod"], "s.up": True}
    assert found.total == 4


@pytest.mark.parametrize(
    ("change", "path", "code"),
    [
        ({"with": []}, "/with", "unknown_param"),
        ({"orderby": []}, "/orderby", "unknown_param"),
        ({"match": None}, "/match", "required"),
        ({"match": {"alias": "a b"}}, "/match/alias", "bad_alias"),
        ({"patterns": [{}] * 5}, "/patterns", "out_of_range"),
        ({"patterns": [{"from": "z", "edge": "e", "to": "b"}]}, "/patterns/0/from", "bad_source"),
        ({"patterns": [{"from": "a", "to": "b"}]}, "/patterns/0/edge", "bad_type"),
        (
            {"patterns": [{"from": "a", "edge": "e", "to": "b", "direction": "up"}]},
            "/patterns/0/direction",
            "bad_enum",
        ),
        ({"where": [{"expression": "b.x", "value": 1}]}, "/where/0/expression", "bad_expression"),
        (
            {"where": [{"expression": "a.x", "operator": "~", "value": 1}]},
            "/where/0/operator",
            "bad_enum",
        ),
        ({"where": [{"expression": "a.x", "operator": ">"}]}, "/where/0/value", "required"),
        ({"orderBy": [{"expression": "a"}]}, "/orderBy/0/expression", "bad_expression"),
        ({"skip": -1}, "/skip", "out_of_range"),
        ({"limit": "5"}, "/limit", "bad_type"),
        ({"return": []}, "/return", "required"),
        ({"return": ["a.id", "a.id"]}, "/return/1/alias", "duplicate_alias"),
        ({"return": ["count(a)"]}, "/return/0/expression", "bad_expression"),
    ],
)
def test_a_fault_of_a_query_names_its_place(change: dict[str, Any], path: str, code: str) -> None:
    assert (path, code) in fault_of(PEOPLE | change)


def test_all_faults_of_a_query_come_at_once_and_nothing_is_stored(tx: Store) -> None:
    assert len(fault_of(PEOPLE | {"with": 1, "skip": -1, "return": ["b.x"]})) == 3

    with pytest.raises(InvalidInput, match="must be a text"):
        where = [{"expression": "a.x", "operator": "STARTS WITH", "value": 1}]
        perform(tx, "view_templates.create", id="t", name="t", query=PEOPLE | {"where": where})
    assert perform(tx, "view_templates.list").items == ()


def test_a_view_that_takes_too_long_says_so(tx: Store) -> None:
    nodes = [(f"n{at}", "k", {}) for at in range(40)]
    edges = [("e", f"n{a}", f"n{b}") for a in range(40) for b in range(25)]
    fill_graph(tx, Plain(nodes, edges))
    names = ["a", "b", "c", "d", "e"]
    patterns = [
        {"from": near, "edge": "e", "to": {"alias": far}, "direction": "both"}
        for near, far in pairwise(names)
    ]
    make_view(tx, {"match": {"alias": "a"}, "patterns": patterns, "return": ["a.id"]}, "long")
    tx.time_limit.seconds = 0.02

    with pytest.raises(SearchTooLong, match=r"the view 'long' takes longer than 0\.02 s"):
        perform(tx, "graph_views.execute", id="long")


def test_a_template_in_use_is_not_deleted(tx: Store) -> None:
    fill_graph(tx, TEAM)
    make_view(tx, PEOPLE)

    with pytest.raises(Refused, match="people use the template"):
        perform(tx, "view_templates.delete", id="t-people")
    perform(tx, "graph_views.delete", id="people")
    perform(tx, "view_templates.delete", id="t-people")

    with pytest.raises(RecordNotFound):
        perform(tx, "graph_views.execute", id="people")
    assert [change.type for change in tx.feed.after(0, 1000)][-2:] == [
        "view.deleted",
        "record.deleted",
    ]


def test_an_updated_template_changes_its_views(tx: Store) -> None:
    fill_graph(tx, TEAM)
    make_view(tx, PEOPLE)

    changed = perform(
        tx, "view_templates.update", id="t-people", query=PEOPLE | {"limit": 1}, name="first"
    )

    assert (changed.name, changed.query["limit"]) == ("first", 1)
    assert perform(tx, "graph_views.execute", id="people").rows == ({"name": "Ada"},)


def test_a_view_applies_only_to_graphs_of_its_templates(tx: Store) -> None:
    fill_graph(tx, TEAM)
    perform(
        tx,
        "view_templates.create",
        id="t",
        name="t",
        query=PEOPLE,
        applicable_template_ids=["org"],
    )

    with pytest.raises(InvalidInput, match="applies only to graphs of the templates org"):
        perform(tx, "graph_views.create", template_id="t", instance="team")


IDS = st.sampled_from("abcd")
GRAPHS = st.builds(
    Plain,
    st.lists(
        st.tuples(IDS, st.sampled_from("KL"), st.just({})), min_size=1, unique_by=lambda n: n[0]
    ),
    st.lists(st.tuples(st.sampled_from(["e", "f"]), IDS, IDS), max_size=6),
)
KINDS = st.sampled_from([{}, {"recordKind": "K"}, {"recordKind": "L"}])


@st.composite
def queries(draw: st.DrawFn) -> dict[str, Any]:
    aliases, patterns = ["w"], list[dict[str, Any]]()
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.sampled_from(aliases))
        end = draw(st.sampled_from(["w", "x", "y", "z"]))
        kind = draw(KINDS) if end not in aliases else {}
        aliases += [end] if end not in aliases else []
        direction = draw(st.sampled_from(["outgoing", "incoming", "both"]))
        edge = draw(st.sampled_from(["e", "f"]))
        to = {"alias": end, **kind}
        patterns.append({"from": start, "edge": edge, "to": to, "direction": direction})
    returned = [f"{alias}.id" for alias in aliases]
    match = {"alias": "w", **draw(KINDS)}
    return {"match": match, "patterns": patterns, "limit": 1000, "return": returned}


@settings(max_examples=60, deadline=None)
@given(GRAPHS, st.lists(queries(), min_size=1, max_size=6))
def test_views_of_random_graphs_have_the_rows_of_the_reference(
    graph: Plain, wanted: list[dict[str, Any]]
) -> None:
    ids = {node[0] for node in graph.nodes}
    edges = [edge for edge in graph.edges if {*edge[1:]} <= ids]
    graph = Plain(graph.nodes, edges)
    with fresh_store() as store, store.transaction() as tx:
        fill_graph(tx, graph)
        for at, query in enumerate(wanted):
            make_view(tx, query, f"v{at}")
            found = perform(tx, "graph_views.execute", id=f"v{at}")
            rows = [tuple(row.values()) for row in found.rows]
            expected = expected_rows(graph, query)
            if len(expected) <= 1000:
                assert Counter(rows) == Counter(expected)
            assert found.total == len(expected)
