"""The diagrams of pipelines, drawn once for each bundle, and what happens in them.

All open pages share one read of the activity of a pipeline, at most once a second.
"""

from functools import partial
from typing import NamedTuple

from aiohttp import web

from memrelay.web.api.directory import Served
from memrelay.web.console.activity import Activity, read_activity
from memrelay.web.console.agents import list_agents
from memrelay.web.console.graph import Graph, draw_graph
from memrelay.web.server.cached_read import CachedRead
from memrelay.web.server.services import get_services

# By the hash of the bundle. A diagram of 1,000 agents takes 50 ms.
GRAPHS = web.AppKey("graphs", dict[str, Graph])
ACTIVITIES = web.AppKey("activities", dict[str, CachedRead[Activity]])
MAX_GRAPHS = 200


class LiveGraph(NamedTuple):
    """The diagram of a pipeline, what happens in it, and whether the pipeline pauses."""

    graph: Graph
    activity: Activity
    is_paused: bool


def draw_cached(request: web.Request, served: Served) -> Graph:
    """Return the diagram of a pipeline."""
    graphs, key = request.config_dict[GRAPHS], served.deployed.hash
    if key not in graphs:
        if len(graphs) >= MAX_GRAPHS:
            graphs.clear()
        graphs[key] = draw_graph(list_agents(served.bundle))
    return graphs[key]


async def read_live(request: web.Request, served: Served, paused: str) -> LiveGraph:
    """Return the diagram of a pipeline with its activity. `paused` is why it pauses, or "".

    Raises BusUnavailable and StoreBusy.
    """
    services, graph = get_services(request), draw_cached(request, served)
    caches, key = request.config_dict[ACTIVITIES], served.deployed.hash
    if key not in caches:
        if len(caches) >= MAX_GRAPHS:
            caches.clear()
        agents = list_agents(served.bundle)
        letters = services.catalog.letters
        read = partial(read_activity, services.line, letters, served.bundle, agents, graph)
        caches[key] = CachedRead(read)
    return LiveGraph(graph, await caches[key].get(), bool(paused))
