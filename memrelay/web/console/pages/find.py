"""The page "Find": one box over all pipelines that the caller may see."""

from aiohttp import web

from memrelay.web.auth.access import requires
from memrelay.web.console.finding.search import Found, find
from memrelay.web.console.frame import as_page, render_page
from memrelay.web.console.page import Page
from memrelay.web.openapi.route_docs import HTML, documented

PAGE = Page("Find", "/find", menu="main", order=10)
# Characters of a search.
MAX_QUERY = 500
routes = web.RouteTableDef()


@routes.get(PAGE.path)
@documented(
    {200: "The page.", 303: "Login required."},
    media_type=HTML,
    query={"q": "The text, name or id to find."},
)
@as_page
@requires("read")
async def show_find(request: web.Request) -> web.Response:
    """Find records, named memories, messages, agents and pipelines."""
    text = request.query.get("q", "").strip()[:MAX_QUERY]
    found = await find(request, text) if text else Found()
    return await render_page(request, PAGE, "find.html", query=text, found=found)
