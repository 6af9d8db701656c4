"""/v1/pipelines/UID/webhooks: the webhooks of a pipeline's agents, and their last requests."""

from aiohttp import web

from memrelay.memory.validation import parse_number
from memrelay.web.api.answers import (
    page_response,
    parse_limit,
    parse_numeric_cursor,
    refuse_unknown,
)
from memrelay.web.auth.access import requires
from memrelay.web.openapi.route_docs import NUMERIC_CURSOR_SCHEMA, PAGE_QUERY, documented
from memrelay.web.openapi.shapes import AgentWebhook, Page
from memrelay.web.server.errors import BadRequest
from memrelay.web.server.options import find_public_url
from memrelay.web.services import get_services
from memrelay.web.webhooks.requests import MAX_ROWS, describe_webhooks, list_receivers

routes = web.RouteTableDef()
PATH = "/v1/pipelines/{uid}/webhooks"
PAGE_SIZE, LARGEST_PAGE = 50, 200
MAX_REQUESTS = 2 * MAX_ROWS
REQUESTS = 20


@routes.get(PATH)
@documented(
    {200: "A page of webhooks: those with a sender or a secret first, then by alias."},
    query={
        "agent": "Only the webhook of the agent with this alias.",
        "requests": f"Requests of each webhook, 0 to {MAX_REQUESTS}. {REQUESTS} by default.",
    }
    | PAGE_QUERY,
    query_schemas={
        "cursor": NUMERIC_CURSOR_SCHEMA,
        "requests": {"type": "integer", "minimum": 0, "maximum": MAX_REQUESTS},
    },
    schemas={200: Page[AgentWebhook]},
    ident="webhooks.list",
)
@requires("read")
async def list_webhooks(request: web.Request) -> web.Response:
    """List the webhooks of a pipeline with their last requests, the newest first."""
    refuse_unknown(request, ("agent", "requests", "cursor", "limit"))
    services, uid = get_services(request), request.match_info["uid"]
    served = await services.directory.find(uid)
    agents = list_receivers(served.agents.values())
    if "agent" in request.query:
        agents = [served.get_agent(request.query["agent"])]
    start = parse_numeric_cursor(request.query.get("cursor") or "0", len(agents))
    end = start + min(parse_limit(request, PAGE_SIZE), LARGEST_PAGE)
    url, requests = find_public_url(request), _parse_requests(request)
    items = await describe_webhooks(services.line, uid, agents[start:end], url, requests)
    return page_response(items, str(end) if end < len(agents) else None, len(agents))


def _parse_requests(request: web.Request) -> int:
    given = request.query.get("requests", str(REQUESTS))
    number = parse_number(given, -1, len(str(MAX_REQUESTS)))
    if not 0 <= number <= MAX_REQUESTS:
        raise BadRequest(f"`requests` must be a number from 0 to {MAX_REQUESTS}")
    return number
