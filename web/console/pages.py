"""The console's pages: an overview at `/` and a page per pipeline, with fragments for htmx.

Open pages cost no growing memory. Each refresh replaces a fragment of bounded size, and the server
keeps no state of a page between two refreshes.
"""

from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from typing import Any

from aiohttp import web

from memrelay.bus.streams.log import read_log_backward
from memrelay.pipelines.commands import commands_of
from memrelay.web.api.directory import Served
from memrelay.web.api.status import EVICTS, NOT_PERSISTENT, filter_status
from memrelay.web.auth.access import get_caller, open_to_all, requires
from memrelay.web.console.activity import Activity, read_activity
from memrelay.web.console.agents import AgentView, list_agents, list_input_swarms
from memrelay.web.console.examples import (
    GREETING,
    TOOL_CALL,
    SwarmAddress,
    make_examples,
    redis_cli,
)
from memrelay.web.console.format import to_log_rows
from memrelay.web.console.frame import as_page, asset_response, render
from memrelay.web.console.graph import Graph, draw_graph
from memrelay.web.openapi.route_docs import ANY, HTML, documented
from memrelay.web.server.cached_read import CachedRead
from memrelay.web.server.errors import NotFound
from memrelay.web.server.services import get_services

routes = web.RouteTableDef()
PIPELINES_PER_PAGE = 20
MAX_LOG_ROWS = 50
MAX_CHAT_WAIT_S = 30.0
PIPELINE_PATH = "/pipelines/{uid}"
# The status that all open pages share.
STATUS = web.AppKey("status", CachedRead[dict[str, Any]])
# Diagrams by the hash of the bundle. One of 1,000 agents takes 50 ms.
GRAPHS = web.AppKey("graphs", dict[str, Graph])
MAX_GRAPHS = 200
# What happens in a pipeline now, by the hash of its bundle. All open pages share it.
ACTIVITIES = web.AppKey("activities", dict[str, CachedRead[Activity]])


@routes.get("/")
@documented(
    {200: "The page.", 303: "Login required."},
    media_type=HTML,
    query={"page": "The page of the list of pipelines."},
)
@as_page
@requires("read")
async def overview(request: web.Request) -> web.Response:
    """Show all pipelines. If there is only one, also show its chat and examples."""
    values = await _overview_values(request)
    single = await _pipeline_values(request, values["only"]) if values["only"] else None
    return render("overview.html", **values, single=single)


@routes.get("/fragments/overview")
@documented(
    {200: "The fragment."},
    media_type=HTML,
    query={"page": "As for the overview.", "seen": "The digest of the open page."},
)
@requires("read")
async def overview_fragment(request: web.Request) -> web.Response:
    """Return the table of the overview."""
    return render("fragments/overview.html", **await _overview_values(request), is_refresh=True)


@routes.get(PIPELINE_PATH)
@documented(
    {200: "The page.", 303: "Login required."},
    media_type=HTML,
    query={"swarm": "The swarm to chat on."},
)
@as_page
@requires("read")
async def pipeline(request: web.Request) -> web.Response:
    """Show a pipeline: statistics, chat, diagram, and examples."""
    served = await _find_pipeline(request)
    values = await _stats_values(request, served) | await _pipeline_values(request, served)
    return render("pipeline.html", **values)


@routes.get(PIPELINE_PATH + "/stats")
@documented({200: "The fragment."}, media_type=HTML, query={"seen": "The digest of the open page."})
@requires("read")
async def stats_fragment(request: web.Request) -> web.Response:
    """Return the statistics of a pipeline."""
    values = await _stats_values(request, await _find_pipeline(request))
    return render("fragments/stats.html", **values, is_refresh=True)


@routes.get(PIPELINE_PATH + "/log")
@documented({200: "The fragment."}, media_type=HTML, query={"swarm": "The swarm to show."})
@requires("read")
async def log_fragment(request: web.Request) -> web.Response:
    """Return the latest messages of a swarm."""
    values = await _log_values(request, await _find_pipeline(request))
    return render("fragments/log.html", **values)


@routes.get("/static/{name}")
@documented({200: "The file.", 304: "The file has not changed."}, media_type=ANY)
@open_to_all
async def static(request: web.Request) -> web.Response:
    """Return a static file of the console."""
    return asset_response(request, request.match_info["name"])


def _draw_graph(request: web.Request, served: Served) -> Graph:
    """Return the diagram of a pipeline, drawn once for each bundle."""
    graphs, key = request.config_dict[GRAPHS], served.deployed.hash
    if key not in graphs:
        if len(graphs) >= MAX_GRAPHS:
            graphs.clear()
        graphs[key] = draw_graph(list_agents(served.bundle))
    return graphs[key]


async def _activity_values(request: web.Request, served: Served, paused: str) -> dict[str, Any]:
    """Return the template values of a pipeline's diagram. `paused` is why the pipeline pauses."""
    services, graph = get_services(request), _draw_graph(request, served)
    caches, key = request.config_dict[ACTIVITIES], served.deployed.hash
    if key not in caches:
        if len(caches) >= MAX_GRAPHS:
            caches.clear()
        line, letters, agents = services.line, services.catalog.letters, list_agents(served.bundle)
        caches[key] = CachedRead(
            partial(read_activity, line, letters, served.bundle, agents, graph)
        )
    return {"graph": graph, "activity": await caches[key].get(), "is_paused": bool(paused)}


async def _overview_values(request: web.Request) -> dict[str, Any]:
    """Return the template values of the overview: one page of the pipelines, by name."""
    status = await request.config_dict[STATUS].get()
    pipelines = await get_services(request).directory.list_pipelines()
    caller = get_caller(request)
    visible = filter_status(status, caller.sees)["pipelines"]
    number = _parse_page_number(request, len(visible))
    rows = visible[(number - 1) * PIPELINES_PER_PAGE : number * PIPELINES_PER_PAGE]
    known = {served.deployed.uid: served for served in pipelines}
    only = known.get(rows[0]["pipeline_uid"]) if len(visible) == 1 else None
    live = await _activity_values(request, only, rows[0]["paused"]) if only else {}
    return live | {
        "rows": rows,
        "only": only,
        "known": known,
        "total": len(visible),
        "workers": len(status["workers"]),
        "number": number,
        "has_more": number * PIPELINES_PER_PAGE < len(visible),
        "durability": _durability_values(status),
        "caller": caller,
        **_digest_values(request, [(row["pipeline_uid"], row["hash"]) for row in rows]),
    }


def _parse_page_number(request: web.Request, total: int) -> int:
    """Return the number of the wanted page, or of the nearest existing one."""
    given = request.query.get("page", "1")
    wanted = int(given) if given.isascii() and given.isdecimal() and len(given) < 6 else 1
    return max(1, min(wanted, -(-total // PIPELINES_PER_PAGE)))


def _digest_values(request: web.Request, versions: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return the digest of the shown versions, and whether the open page shows older ones."""
    digest = sha256(repr(versions).encode()).hexdigest()[:16]
    return {"digest": digest, "is_old": request.query.get("seen", digest) != digest}


def _durability_values(status: dict[str, Any]) -> dict[str, Any]:
    durability: dict[str, Any] = status["durability"]
    return durability | {"is_lacking": durability["meaning"] in (NOT_PERSISTENT, EVICTS)}


async def _find_pipeline(request: web.Request) -> Served:
    """Return the pipeline in the path. Raises NotFound."""
    uid = request.match_info["uid"]
    try:
        return await get_services(request).directory.find(uid)
    except NotFound as error:
        raise NotFound(f"No pipeline {uid[:100]!r} is active.") from error


async def _stats_values(request: web.Request, served: Served) -> dict[str, Any]:
    """Return the template values of a pipeline's statistics. Raises NotFound."""
    cache, uid = request.config_dict[STATUS], served.deployed.uid
    status = await cache.get()
    rows = _find_rows(status, uid)
    if not rows:
        # The pipeline may have been deployed after the cached read.
        status = await cache.get(refresh=True)
        rows = _find_rows(status, uid)
    if not rows:
        raise NotFound(f"No pipeline {uid!r} is active.")
    return await _activity_values(request, served, rows[0]["paused"]) | {
        "agents": list_agents(served.bundle),
        "stats": rows[0],
        "workers": len(status["workers"]),
        "durability": _durability_values(status),
        "caller": get_caller(request),
        **_digest_values(request, [(uid, served.deployed.hash)]),
    }


def _find_rows(status: dict[str, Any], uid: str) -> list[dict[str, Any]]:
    return [row for row in status["pipelines"] if row["pipeline_uid"] == uid]


async def _pipeline_values(request: web.Request, served: Served) -> dict[str, Any]:
    """Return the template values of a pipeline's chat and examples."""
    agents, options = list_agents(served.bundle), get_services(request).options
    values, commands = await _log_values(request, served), commands_of(served.bundle)
    address = SwarmAddress(
        f"{request.scheme}://{request.host}",
        redis_cli(options.bus_name, options.bus_password_file),
        served.deployed.uid,
        values["swarm"],
        served.bundle.home_of(values["swarm"]),
    )
    return values | {
        "uid": served.deployed.uid,
        "name": served.deployed.name,
        "description": served.bundle.description,
        "agents": agents,
        "swarms": list_input_swarms(agents),
        "commands": commands,
        "address": address,
        "sender": _default_sender(agents, values["swarm"]),
        "examples": make_examples(address, commands, _example_text(agents, values["swarm"])),
        "wait_s": min(MAX_CHAT_WAIT_S, options.max_wait_s),
    }


def _example_text(agents: Sequence[AgentView], swarm: str) -> str:
    """Return a message that the agents of a swarm without commands answer."""
    takes_tool_calls = any(
        agent.block == "memory_tool" and agent.listens_on == swarm for agent in agents
    )
    return TOOL_CALL if takes_tool_calls else GREETING


def _default_sender(agents: Sequence[AgentView], swarm: str) -> str:
    """Return the name of the swarm's chat agent, otherwise `User`."""
    for agent in agents:
        if agent.block == "chat_agent" and agent.publishes_on == swarm:
            return agent.name
    return "User"


async def _log_values(request: web.Request, served: Served) -> dict[str, Any]:
    """Return the template values of a swarm's log, newest first.

    The default is the first swarm with listeners. Raises NotFound.
    """
    swarm = request.query.get("swarm", "")
    if not swarm:
        swarm = next(iter(list_input_swarms(list_agents(served.bundle))), "")
    if swarm and swarm not in served.swarms:
        raise NotFound(
            f"Pipeline {served.deployed.name} has no swarm {swarm[:100]!r}; it has "
            f"{', '.join(served.swarms)}."
        )
    line, home = get_services(request).line, served.bundle.home_of(swarm)
    entries = await read_log_backward(line, home, swarm, limit=MAX_LOG_ROWS) if swarm else []
    return {
        "swarm": swarm,
        "is_public": swarm in served.bundle.public,
        "log": to_log_rows(entries),
        "max_log_rows": MAX_LOG_ROWS,
    }
