"""The diagrams of pipelines, drawn once for each bundle."""

from aiohttp import web

from memrelay.web.api.directory import Served
from memrelay.web.console.agents import list_agents
from memrelay.web.console.graph import Graph, draw_graph

# By the hash of the bundle. A diagram of 1,000 agents takes 50 ms.
GRAPHS = web.AppKey("graphs", dict[str, Graph])
MAX_GRAPHS = 200


def draw_cached(request: web.Request, served: Served) -> Graph:
    """Return the diagram of a pipeline."""
    graphs, key = request.config_dict[GRAPHS], served.deployed.hash
    if key not in graphs:
        if len(graphs) >= MAX_GRAPHS:
            graphs.clear()
        graphs[key] = draw_graph(list_agents(served.bundle))
    return graphs[key]
