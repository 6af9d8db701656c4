"""/openapi.json, for programs, and /docs, the same for people; both work offline."""

from typing import Any

import orjson
from aiohttp import web

from memrelay.web.auth.access import open_to_all
from memrelay.web.console.frame import as_page, show
from memrelay.web.openapi.route_docs import HTML, described

routes = web.RouteTableDef()
DOCUMENT = web.AppKey("document", dict[str, Any])


@routes.get("/openapi.json")
@described({200: "OpenAPI 3.1"})
@open_to_all
async def document(request: web.Request) -> web.Response:
    """What is served, as OpenAPI 3.1."""
    return web.Response(body=orjson.dumps(_document(request)), content_type="application/json")


@routes.get("/docs")
@described({200: "the page"}, kind=HTML)
@open_to_all
@as_page
async def page(request: web.Request) -> web.Response:
    """The same to be read."""
    told, rooms = _document(request), dict[str, list[tuple[str, str, Any]]]()
    for path, methods in told["paths"].items():
        for method, one in methods.items():
            rooms.setdefault(one["tags"][0], []).append((method.upper(), path, one))
    return show("docs.html", told=told, rooms=sorted(rooms.items()))


def _document(request: web.Request) -> dict[str, Any]:
    """Made once, of the application as it is."""
    return request.app[DOCUMENT]
