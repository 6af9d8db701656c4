"""The page "Graph": the entities of a graph and the relations between them, to browse and edit.

It shows at most 300 entities: the first ones, or those near a chosen one. Graphs of recipes and the
graph of MCP clients have the same page.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from aiohttp import web

from memrelay.memory.engine.memory_id import built_in_store
from memrelay.memory.models.recipes import NODE_KIND
from memrelay.memory.models.recipes.graph.graph import ENTITY_GRAPH, OBSERVATIONS
from memrelay.memory.models.recipes.table import make_node_scope
from memrelay.web.api.directory import Served
from memrelay.web.auth.access import get_caller
from memrelay.web.console.calls import Answer, Call, ask_refusable
from memrelay.web.console.entity_layout import Picture, draw, find_distances, rank_types
from memrelay.web.console.frame import Page, PageRoutes, refuse_fault

PAGE = Page("Graph", "/pipelines/{uid}/graph", menu="pipeline", order=36, parent="Pipelines")
QUERY = {
    "graph": "The id of the graph, by default that of MCP clients, else the newest.",
    "node": "The id of an entity: show what is near it.",
    "depth": "The number of relations from the entity: 1 or 2.",
    "q": "Only entities with these words in the name or an observation.",
}
ERRORS = {404: "There is no such pipeline."}
routes = PageRoutes(PAGE, errors=ERRORS, query=QUERY)
Json = dict[str, Any]
MAX_NODES, MAX_FOUND, MAX_RELATIONS, MAX_OBSERVATIONS = 300, 50, 100, 100
DEPTHS = ("1", "2")
# Bytes of all entities in HTML, and of one besides its name and its two links.
MAX_BYTES, NODE_BYTES = 200_000, 360


class View(NamedTuple):
    """The part of a graph that a visitor sees. `graph` is "" if the pipeline has no graph."""

    uid: str
    graph: str
    node: str = ""
    depth: str = "1"
    query: str = ""

    def url(self, part: str = "", **changes: str) -> str:
        """Return the address of this view with changes, or of a part of the page."""
        view = self._replace(**changes)
        depth = view.depth if view.node and view.depth != "1" else ""
        given = {"graph": view.graph, "node": view.node, "depth": depth, "q": view.query}
        shown = {name: value for name, value in given.items() if value}
        return f"/pipelines/{self.uid}/graph{part}?{urlencode(shown)}"

    def node_url(self, node: str) -> str:
        """Return the address of an entity."""
        return self.url(node=node, query="", depth=self.depth)

    def api(self, verb: str, ident: str = "") -> str:
        """Return the path of an operation on the graph."""
        middle = f"{quote(ident, safe='')}/" if ident else ""
        return f"/v1/pipelines/{self.uid}/graph/{middle}{verb}"


class Shown(NamedTuple):
    """The entities and edges that are shown. `entities` and `relations` are those of the graph."""

    nodes: list[Json]
    edges: list[Json]
    picture: Picture
    types: dict[str, int]
    entities: int
    relations: int
    has_more: bool


@routes.pipeline_page("entity_graph.html")
async def entity_graph(request: web.Request, served: Served) -> Json:
    """Show a graph, or what is near one of its entities."""
    return await _read(request, served)


@routes.part("/view", "fragments/entity_graph.html", ident="graph.entity_graph_view")
async def entity_graph_view(request: web.Request, served: Served) -> Json:
    """Return the picture, the list and the panel of the page."""
    values = await _read(request, served)
    refuse_fault(values["fault"])
    return values


async def _read(request: web.Request, served: Served) -> Json:
    """Return the template values of the page."""
    uid = served.deployed.uid
    listed = await ask_refusable(request, uid, Call("instances.list", {"sort": "graph"}))
    graphs = listed.output["items"] if listed.output else []
    ids = [one["id"] for one in graphs]
    chosen = request.query.get("graph", "")
    default = ENTITY_GRAPH if ENTITY_GRAPH in ids else next(iter(ids), "")
    depth = request.query.get("depth", "")
    view = View(
        uid,
        chosen if chosen in ids else default,
        request.query.get("node", ""),
        depth if depth in DEPTHS else DEPTHS[0],
        request.query.get("q", "").strip()[:400],
    )
    shown, panel, found = await asyncio.gather(
        _read_shown(request, view), _read_panel(request, view), _search(request, view)
    )
    return {
        "view": view,
        "graphs": graphs,
        "is_mcp": view.graph in ("", ENTITY_GRAPH),
        "may_search": "search" in get_caller(request).scopes,
        "fault": listed.fault,
        "depths": DEPTHS,
        "max_observations": MAX_OBSERVATIONS,
        **shown,
        **panel,
        **found,
    }


async def _read_shown(request: web.Request, view: View) -> Json:
    """Return the entities of the view with their picture: {"shown", "shown_fault"}."""
    nothing = {"shown": None, "shown_fault": ""}
    if not view.graph or view.query:
        return nothing
    given = {"instance": view.graph, "limit": MAX_NODES, "seed_node_id": view.node}
    answer = await ask_refusable(request, view.uid, Call("graph.subgraph", given))
    if answer.output is None:
        return nothing | {"shown_fault": answer.fault}
    return nothing | {"shown": await asyncio.to_thread(_arrange, view, answer.output)}


def _arrange(view: View, part: Json) -> Shown:
    """Return the entities within the distance of the view, with their picture."""
    nodes, edges, has_more = part["nodes"], part["edges"], part["has_more"]
    pairs, edges = _index_edges(nodes, edges)
    if view.node:
        at = next(at for at, node in enumerate(nodes) if node["id"] == view.node)
        distances = find_distances(at, len(nodes), pairs)
        depth = int(view.depth)
        has_more = has_more and max(distances) <= depth
        near = zip(nodes, distances, strict=True)
        nodes = [node for node, distance in near if 0 <= distance <= depth]
        pairs, edges = _index_edges(nodes, edges)
    fitting = _count_fitting(view, nodes)
    if fitting < len(nodes):
        nodes, has_more = nodes[:fitting], True
        pairs, edges = _index_edges(nodes, edges)
    kinds = [node["kind"] for node in nodes]
    picture = draw([node["id"] for node in nodes], kinds, pairs)
    counts = part["total_counts"]
    totals = counts["nodes"], counts["edges"]
    return Shown(nodes, edges, picture, rank_types(kinds), *totals, has_more)


def _count_fitting(view: View, nodes: Sequence[Json]) -> int:
    """Return how many entities fit into a page. Long names take much room in links."""
    size = 0
    for number, node in enumerate(nodes):
        name = len(node["name"][:120].encode()) + len(node["kind"][:120].encode())
        size += NODE_BYTES + 2 * len(view.node_url(node["id"])) + 3 * name
        if size > MAX_BYTES:
            return number
    return len(nodes)


def _index_edges(
    nodes: Sequence[Json], edges: Sequence[Json]
) -> tuple[list[tuple[int, int]], list[Json]]:
    """Return the edges between these entities, also as pairs of their indexes."""
    indexes = {node["id"]: at for at, node in enumerate(nodes)}
    kept = [
        edge for edge in edges if edge["from_node_id"] in indexes and edge["to_node_id"] in indexes
    ]
    return [(indexes[one["from_node_id"]], indexes[one["to_node_id"]]) for one in kept], kept


async def _read_panel(request: web.Request, view: View) -> Json:
    """Return what the panel shows of the chosen entity."""
    panel: Json = {"node": None, "out": None, "into": None, "history": "", "observations": []}
    panel |= {"attributes": {}}
    if not (view.graph and view.node) or view.query:
        return panel | {"panel_fault": ""}
    calls = [
        Call("graph.get_node", {"instance": view.graph, "id": view.node}),
        _list_edges(view, "from_node_id"),
        _list_edges(view, "to_node_id"),
    ]
    answers = await asyncio.gather(*(ask_refusable(request, view.uid, call) for call in calls))
    node, out, into = (answer.output for answer in answers)
    if node is None:
        return panel | {"out": out, "into": into, "panel_fault": answers[0].fault}
    attributes = dict(node["attributes"])
    observations = attributes.pop(OBSERVATIONS, []) if view.graph == ENTITY_GRAPH else []
    return {
        "node": node,
        "attributes": attributes,
        "observations": observations,
        "out": out,
        "into": into,
        "history": _find_record(view),
        "panel_fault": "",
    }


def _find_record(view: View) -> str:
    """Return the address of the list with the record of an entity, which has its history."""
    given = {"store": built_in_store(view.uid, "recipes"), "kind": NODE_KIND, "key": view.node}
    query = urlencode(given | {"scope": make_node_scope(view.graph)})
    return f"/pipelines/{view.uid}/memory?{query}"


def _list_edges(view: View, side: str) -> Call:
    given = {"instance": view.graph, side: view.node, "limit": MAX_RELATIONS}
    return Call("graph.list_edges", given)


async def _search(request: web.Request, view: View) -> Json:
    """Return the entities that match the query: {"found", "found_fault"}."""
    if not (view.graph and view.query) or "search" not in get_caller(request).scopes:
        return {"found": [], "found_fault": ""}
    given = {
        "query": view.query,
        "plain": True,
        "kind": NODE_KIND,
        "scope": make_node_scope(view.graph),
        "limit": MAX_FOUND,
    }
    store = built_in_store(view.uid, "recipes")
    answer: Answer = await ask_refusable(request, view.uid, Call("records.search", given, store))
    records = [one["record"] for one in answer.output["items"]] if answer.output else []
    return {"found": records, "found_fault": answer.fault}
