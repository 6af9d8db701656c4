"""The page of a pipeline: statistics, chat, diagram, and examples."""

from typing import Any

from aiohttp import web

from memrelay.web.api.directory import Served
from memrelay.web.console.activity import read_live
from memrelay.web.console.agents import list_agents
from memrelay.web.console.frame import Page, PageRoutes, answer_tagged, find_served
from memrelay.web.console.pipeline_values import log_values, pipeline_values
from memrelay.web.console.shared_reads import STATUS, find_row, list_notices
from memrelay.web.server.errors import NotFound

PAGE = Page("Overview", "/pipelines/{uid}", menu="pipeline", parent="Pipelines")
routes = PageRoutes(PAGE)


@routes.pipeline_page("pipeline.html", query={"swarm": "The swarm to chat on."})
async def pipeline(request: web.Request, served: Served) -> dict[str, Any]:
    """Show a pipeline: statistics, chat, diagram, and examples."""
    return await _stats_values(request, served) | await pipeline_values(request, served)


@routes.fragment(
    PAGE.path + "/notices", query={"seen": "The hash of the bundle that the open page shows."}
)
async def notices_fragment(request: web.Request) -> web.Response:
    """Return the warnings about a pipeline: no worker, paused, or a newer version."""
    served = await find_served(request)
    status = await request.config_dict[STATUS].get()
    notices = list_notices(status, served)
    is_old = request.query.get("seen", served.deployed.hash) != served.deployed.hash
    return await answer_tagged(
        request, (notices, is_old), "fragments/notices.html", notices=notices, is_old=is_old
    )


@routes.fragment(PAGE.path + "/stats")
async def stats_fragment(request: web.Request) -> web.Response:
    """Return the statistics of a pipeline."""
    served = await find_served(request)
    values = await _stats_values(request, served)
    return await answer_tagged(
        request,
        (values["stats"], values["live"]),
        "fragments/stats.html",
        **values,
        uid=served.deployed.uid,
        agents=list_agents(served.bundle),
        is_refresh=True,
    )


@routes.part("/log", "fragments/log.html", query={"swarm": "The swarm to show."})
async def log_fragment(request: web.Request, served: Served) -> dict[str, Any]:
    """Return the latest messages of a swarm."""
    return await log_values(request, served)


async def _stats_values(request: web.Request, served: Served) -> dict[str, Any]:
    """Return the template values of a pipeline's statistics. Raises NotFound."""
    stats = await _read_stats(request, served)
    return {"stats": stats, "live": await read_live(request, served, stats["paused"])}


async def _read_stats(request: web.Request, served: Served) -> dict[str, Any]:
    """Return the statistics of a pipeline. Raises NotFound."""
    cache, uid = request.config_dict[STATUS], served.deployed.uid
    # The pipeline may have been deployed after the cached read.
    stats = find_row(await cache.get(), uid) or find_row(await cache.get(refresh=True), uid)
    if stats is None:
        raise NotFound(f"No pipeline {uid!r} is active.")
    return stats
