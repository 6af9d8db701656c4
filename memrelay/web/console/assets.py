"""The route of the static files."""

from aiohttp import web

from memrelay.web.auth.access import open_to_all
from memrelay.web.console.frame import asset_response
from memrelay.web.openapi.route_docs import ANY, documented

routes = web.RouteTableDef()


@routes.get("/static/{name}")
@documented({200: "The file.", 304: "The file has not changed."}, media_type=ANY)
@open_to_all
async def static(request: web.Request) -> web.Response:
    """Return a static file of the console."""
    return asset_response(request, request.match_info["name"])
