"""/openapi.json, and the API reference below /docs with the same content. Both work offline."""

from typing import Any

import orjson
from aiohttp import web

from memrelay.web.auth.access import open_to_all
from memrelay.web.console.frame import as_page, render
from memrelay.web.openapi.reference import Reference
from memrelay.web.openapi.reference_reader import COMMON
from memrelay.web.openapi.route_docs import HTML, documented
from memrelay.web.server.errors import NotFound

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


@routes.get("/docs")
@documented(
    {200: "The page."},
    media_type=HTML,
    query={"q": "Show only routes that contain all of these words."},
)
@open_to_all
@as_page
async def groups(request: web.Request) -> web.Response:
    """Show the groups of the API reference, or the routes that a search finds."""
    query, reference = request.query.get("q", "").strip()[:MAX_QUERY], request.app[REFERENCE]
    found = reference.search(query) if query else []
    return render(
        "docs.html",
        openapi=request.app[DOCUMENT],
        sections=list(reference.list_sections()),
        query=query,
        found=found,
        total=sum(len(page.routes) for page in found),
    )


@routes.get("/docs/{group}")
@documented({200: "The page.", 404: "No such group."}, media_type=HTML)
@open_to_all
@as_page
async def group(request: web.Request) -> web.Response:
    """Show one group of the API reference, with a form for each call."""
    name = request.match_info["group"]
    page = request.app[REFERENCE].find(name)
    if page is None:
        raise NotFound(f"The API reference has no group {name[:100]!r}.")
    return render(
        "docs_group.html",
        page=page,
        server=f"{request.scheme}://{request.host}",
        common_errors=COMMON,
    )
