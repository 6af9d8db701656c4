"""/openapi.json, and the API reference below /docs with the same content. Both work offline."""

from typing import Any

import orjson
from aiohttp import web

from memrelay.web.auth.access import CALLER, open_to_all
from memrelay.web.auth.authorizer import ANONYMOUS
from memrelay.web.console.frame import Page, as_page, render_page
from memrelay.web.openapi.reference import COMMON, Reference
from memrelay.web.openapi.route_docs import HTML, documented
from memrelay.web.server.errors import NotFound
from memrelay.web.server.options import find_public_url
from memrelay.web.services import get_services

PAGE = Page("API reference", "/docs", menu="main", order=90, scopes=())
GROUP_PAGE = Page("Group", "/docs/{group}", parent=PAGE.title, scopes=())
routes = web.RouteTableDef()
# The document and the reference, built once at startup.
DOCUMENT = web.AppKey("document", dict[str, Any])
REFERENCE = web.AppKey("reference", Reference)
# Characters of a search for routes.
MAX_QUERY = 200


@routes.get("/openapi.json")
@documented({200: "The OpenAPI 3.1 document."})
@open_to_all
async def document(request: web.Request) -> web.Response:
    """Return the OpenAPI 3.1 document."""
    return web.Response(body=orjson.dumps(request.app[DOCUMENT]), content_type="application/json")


@routes.get(PAGE.path)
@documented(
    {200: "The page."},
    media_type=HTML,
    query={"q": "Show only routes that contain all of these words."},
)
@open_to_all
@as_page
async def groups(request: web.Request) -> web.Response:
    """Show the groups of the API reference, or the routes that a search finds."""
    await _identify_caller(request)
    query, reference = request.query.get("q", "").strip()[:MAX_QUERY], request.app[REFERENCE]
    found = reference.search(query) if query else []
    return await render_page(
        request,
        PAGE,
        "docs.html",
        openapi=request.app[DOCUMENT],
        sections=list(reference.list_sections()),
        query=query,
        found=found,
        total=sum(len(page.routes) for page in found),
    )


@routes.get(GROUP_PAGE.path)
@documented({200: "The page.", 404: "No such group."}, media_type=HTML)
@open_to_all
@as_page
async def group(request: web.Request) -> web.Response:
    """Show one group of the API reference, with a form for each call."""
    name = request.match_info["group"]
    await _identify_caller(request)
    found = request.app[REFERENCE].find(name)
    if found is None:
        raise NotFound(f"The API reference has no group {name[:100]!r}.")
    return await render_page(
        request,
        GROUP_PAGE,
        "docs_group.html",
        title=found.group.title,
        group=found,
        server=find_public_url(request),
        common_errors=COMMON,
    )


async def _identify_caller(request: web.Request) -> None:
    """Record the caller for the navigation, if the request has a valid key or session."""
    caller = await get_services(request).authorizer.get_caller_or_anonymous(request)
    if caller is not ANONYMOUS:
        request[CALLER] = caller
