"""The page "Webhooks": URLs of agents to paste at senders, the last requests, and endpoints."""

from typing import Any
from urllib.parse import urlencode, urlsplit

from aiohttp import web

from memrelay.memory.engine.models import load, models
from memrelay.pipelines.checked import CheckedAgent
from memrelay.web.api.answers import parse_numeric_cursor
from memrelay.web.api.directory import Served
from memrelay.web.console.frame import Page, PageRoutes
from memrelay.web.openapi.route_docs import NUMERIC_CURSOR_SCHEMA
from memrelay.web.server.options import find_public_url
from memrelay.web.services import get_services
from memrelay.web.webhooks.requests import MAX_ROWS, describe_webhooks, list_receivers

PAGE = Page("Webhooks", "/pipelines/{uid}/webhooks", menu="pipeline", order=25, parent="Pipelines")
QUERY = {"agent": "Only the webhook of this agent.", "cursor": "The cursor of a later page."}
ERRORS = {404: "There is no such pipeline or agent."}
SCHEMAS = {"cursor": NUMERIC_CURSOR_SCHEMA}
# Agents, and requests of all of them together.
PAGE_SIZE, MAX_SHOWN = 20, 200
# Hosts that only this machine reaches.
LOOPBACK = ("127.0.0.1", "::1", "localhost")
LOOPBACK_NOTE = (
    "Services on the internet cannot reach {}: give this server a public address, or use a tunnel, "
    "and set web.public_url to that address."
)
# The model of the endpoints, and the function that lists them.
ENDPOINTS = "memrelay.memory.models.endpoints"
LIST_ENDPOINTS = "memrelay.web.console.pages.endpoints:list_endpoints"
routes = PageRoutes(PAGE, errors=ERRORS, query=QUERY)


@routes.pipeline_page("webhooks.html", query_schemas=SCHEMAS)
async def webhooks(request: web.Request, served: Served) -> dict[str, Any]:
    """Show the webhooks of a pipeline, their last requests, and its endpoints."""
    values = await _list_webhooks(request, served)
    if values["alias"] or ENDPOINTS not in models():
        return values
    endpoints: dict[str, Any] = await load(LIST_ENDPOINTS)(request, served)
    return values | endpoints


@routes.part("/rows", "fragments/webhooks.html", query_schemas=SCHEMAS)
async def webhooks_rows(request: web.Request, served: Served) -> dict[str, Any]:
    """Return the list of requests."""
    return await _list_webhooks(request, served)


def _is_made(agent: CheckedAgent) -> bool:
    """Return whether an agent has a sender or a secret for webhooks."""
    return agent.sender is not None or agent.is_guarded


def describe_reach(request: web.Request) -> dict[str, Any]:
    """Return the template values about a URL that only this machine reaches."""
    host = urlsplit(find_public_url(request)).hostname or ""
    return {"is_loopback": host in LOOPBACK, "loopback_note": LOOPBACK_NOTE.format(host)}


async def _list_webhooks(request: web.Request, served: Served) -> dict[str, Any]:
    """Return the template values of the page. Raises BadRequest, NotFound and BusError."""
    agents, alias = list_receivers(served.agents.values()), request.query.get("agent", "")
    if alias:
        agents = [served.get_agent(alias)]
    agents = sorted(agents, key=lambda one: not _is_made(one))
    start = parse_numeric_cursor(request.query.get("cursor") or "0", len(agents))
    end = start + PAGE_SIZE
    items = await describe_webhooks(
        get_services(request).line,
        served.deployed.uid,
        agents[start:end],
        find_public_url(request),
        2 * MAX_ROWS if alias else MAX_ROWS,
    )
    rows = [row | {"agent": item["agent"]} for item in items for row in item["requests"]]
    rows.sort(key=lambda row: row["at"], reverse=True)
    # Agents made for webhooks come first; each other agent takes messages with a key.
    made = {one.agent.alias for one in agents if _is_made(one)}
    return {
        "made": [one for one in items if one["agent"] in made],
        "others": [one for one in items if one["agent"] not in made],
        **describe_reach(request),
        "items": items,
        "rows": rows[:MAX_SHOWN],
        "alias": alias,
        "query": urlencode({name: request.query[name] for name in QUERY if name in request.query}),
        "previous": start > 0,
        "following": end if end < len(agents) else None,
    }
