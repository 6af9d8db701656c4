"""Graphs for tests: the one of the acceptance fixture, random ones, and a reference for views."""

from dataclasses import dataclass
from itertools import product
from typing import Any

from memrelay.memory.engine.store import Store
from memrelay.memory.models.recipes.step import Items, StepCall, all_step_types
from memrelay.memory.operations import Context
from tests.memory.builders import NOW, PLENTY, make_guid, perform

PEOPLE = {
    "match": {"alias": "a", "recordKind": "person"},
    "return": [{"expression": "a.name", "alias": "name"}],
}


@dataclass(frozen=True)
class Plain:
    """A graph in plain Python: nodes as (id, kind, attributes), edges as (kind, from, to)."""

    nodes: list[tuple[str, str, dict[str, Any]]]
    edges: list[tuple[str, str, str]]


TEAM = Plain(
    [
        ("ada", "person", {}),
        ("ben", "person", {}),
        ("cy", "person", {}),
        ("api", "service", {}),
        ("db", "service", {}),
    ],
    [
        ("knows", "ada", "ben"),
        ("knows", "ben", "cy"),
        ("owns", "ada", "api"),
        ("uses", "api", "db"),
    ],
)
NAMES = {"ada": "Ada", "ben": "Ben", "cy": "Cy", "api": "API", "db": "DB"}


def make_graph(tx: Store, name: str = "team", template_id: str | None = None) -> None:
    perform(tx, "instances.create", sort="graph", name=name, template_id=template_id)


def fill_graph(tx: Store, graph: Plain, name: str = "team") -> None:
    make_graph(tx, name)
    nodes = [
        {"id": id_, "kind": kind, "name": NAMES.get(id_, id_), "attributes": attributes}
        for id_, kind, attributes in graph.nodes
    ]
    edges = [
        {"kind": kind, "from_node_id": start, "to_node_id": end} for kind, start, end in graph.edges
    ]
    perform(tx, "graph.add_nodes", instance=name, nodes=nodes)
    if edges:
        perform(tx, "graph.add_edges", instance=name, edges=edges)


def make_view(tx: Store, query: dict[str, Any], id_: str = "people", graph: str = "team") -> None:
    perform(tx, "view_templates.create", id=f"t-{id_}", name=id_, query=query)
    perform(tx, "graph_views.create", id=id_, template_id=f"t-{id_}", instance=graph)


def run_step(
    tx: Store, name: str, items: Items | None = None, **given: Any
) -> tuple[Any, list[tuple[str, str]]]:
    """Run a step of a recipe. Return its result and its warnings."""
    context = Context(NOW, "tester", PLENTY, make_guid)
    call = StepCall(tx, context, name, items or [], "", {})
    type_ = all_step_types()[name]
    result = type_.run(type_.adapter.validate_python(given), call)
    return result, call.warnings


def ends_of(direction: str, start: str, end: str) -> set[tuple[str, str]]:
    """Return the pairs (node, neighbor) of an edge in a direction."""
    pairs = {"outgoing": {(start, end)}, "incoming": {(end, start)}}
    return pairs.get(direction, {(start, end), (end, start)})


def expected_rows(graph: Plain, query: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return the ids of the nodes that a query without conditions matches, by trying all."""
    kinds = {id_: kind for id_, kind, _ in graph.nodes}
    rows = []
    patterns = query.get("patterns", [])
    for first, *edges in product(kinds, *([graph.edges] * len(patterns))):
        for bound in _bindings(first, edges, query):
            wanted = [query["match"], *(pattern["to"] for pattern in patterns)]
            if all(one.get("recordKind") in (None, kinds[bound[one["alias"]]]) for one in wanted):
                rows.append(tuple(bound[name.removesuffix(".id")] for name in query["return"]))
    return rows


def _bindings(
    first: str, edges: list[tuple[str, str, str]], query: dict[str, Any]
) -> list[dict[str, str]]:
    """Return the ways in which these edges match the patterns of a query, from a first node."""
    found = [{query["match"]["alias"]: first}]
    for pattern, (kind, start, end) in zip(query.get("patterns", []), edges, strict=True):
        if kind != pattern["edge"]:
            return []
        pairs = ends_of(pattern["direction"], start, end)
        found = [
            {**bound, pattern["to"]["alias"]: far}
            for bound in found
            for near, far in pairs
            if bound[pattern["from"]] == near and bound.get(pattern["to"]["alias"], far) == far
        ]
    return found
