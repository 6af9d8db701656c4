"""/openapi.json, and /docs with the same content as a page. Both work offline."""

from typing import Any

import orjson
from aiohttp import web

from memrelay.web.auth.access import open_to_all
from memrelay.web.console.frame import as_page, render_page
from memrelay.web.console.page import Page
from memrelay.web.openapi.route_docs import HTML, documented

PAGE = Page("API reference", "/docs", menu="main", order=90, scopes=())
routes = web.RouteTableDef()
# The document, built once at startup.
DOCUMENT = web.AppKey("document", dict[str, Any])


@routes.get("/openapi.json")
@documented({200: "The OpenAPI 3.1 document."})
@open_to_all
async def document(request: web.Request) -> web.Response:
    """Return the OpenAPI 3.1 document."""
    return web.Response(body=orjson.dumps(request.app[DOCUMENT]), content_type="application/json")


@routes.get("/docs")
@documented({200: "The page."}, media_type=HTML)
@open_to_all
@as_page
async def page(request: web.Request) -> web.Response:
    """Show the API documentation as a page."""
    openapi = request.app[DOCUMENT]
    sections: dict[str, list[tuple[str, str, Any]]] = {}
    for path, methods in openapi["paths"].items():
        for method, operation in methods.items():
            entry = (method.upper(), path, operation)
            sections.setdefault(operation["tags"][0], []).append(entry)
    return await render_page(
        request, PAGE, "docs.html", openapi=openapi, sections=sorted(sections.items())
    )
