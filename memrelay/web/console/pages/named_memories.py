"""The page "Named memories": the list of a pipeline's named memories."""

from typing import Any, NamedTuple
from urllib.parse import urlencode

from aiohttp import web

from memrelay.web.api.directory import Served
from memrelay.web.auth.access import get_caller, requires
from memrelay.web.console.calls import Wanted, ask
from memrelay.web.console.frame import as_page, render, render_page
from memrelay.web.console.page import Page
from memrelay.web.console.pipeline_values import find_served
from memrelay.web.console.refresh import answer_refresh
from memrelay.web.openapi.route_docs import HTML, documented

PAGE = Page(
    "Named memories",
    "/pipelines/{uid}/memories",
    menu="pipeline",
    order=20,
    parent="Pipelines",
)
QUERY = {"cursor": "The cursor of a later page."}
ERRORS = {404: "There is no such pipeline.", 422: "The cursor is invalid."}
PAGE_SIZE = 50
routes = web.RouteTableDef()


class MemoryRow(NamedTuple):
    """A named memory, its number of entries, and the time of its newest entry, "" for none."""

    memory: dict[str, Any]
    entries: int
    newest_at: str


@routes.get(PAGE.path)
@documented({200: "The page.", 303: "Login required."} | ERRORS, media_type=HTML, query=QUERY)
@as_page
@requires("read")
async def named_memories(request: web.Request) -> web.Response:
    """Show the named memories of a pipeline."""
    served = await find_served(request)
    values = await _read_values(request, served)
    return await render_page(request, PAGE, "named_memories.html", served, **values)


@routes.get(PAGE.path + "/rows")
@documented(
    {200: "The fragment.", 304: "Nothing has changed."} | ERRORS, media_type=HTML, query=QUERY
)
@requires("read")
async def named_memories_rows(request: web.Request) -> web.Response:
    """Return the list of the page."""
    served = await find_served(request)

    async def make() -> web.Response:
        values = await _read_values(request, served)
        caller = get_caller(request)
        uid = served.deployed.uid
        return render("fragments/named_memories.html", uid=uid, caller=caller, **values)

    return await answer_refresh(request, served, make)


async def _read_values(request: web.Request, served: Served) -> dict[str, Any]:
    """Return the template values of the list."""
    cursor, uid = request.query.get("cursor", ""), served.deployed.uid
    values: dict[str, Any] = {"rows": [], "total": 0, "next_url": "", "fault": "", "cursor": cursor}
    wanted = Wanted("memories.list", {"limit": PAGE_SIZE, "cursor": cursor})
    (listed,) = await ask(request, uid, wanted)
    if listed.fault:
        return values | {"fault": listed.fault}
    memories, following = listed.output["items"], listed.output["next_cursor"]
    return values | {
        "rows": await _read_rows(request, uid, memories),
        "total": listed.output["total"],
        "next_url": f"?{urlencode({'cursor': following})}" if following else "",
    }


async def _read_rows(
    request: web.Request, uid: str, memories: list[dict[str, Any]]
) -> list[MemoryRow]:
    wanted = [
        Wanted("entries.list", {"memory_id": one["id"], "order": "desc", "limit": 1})
        for one in memories
    ]
    rows = []
    for memory, entries in zip(memories, await ask(request, uid, *wanted), strict=True):
        page = entries.output or {"items": [], "total": 0}
        newest = page["items"][0]["created_at"] if page["items"] else ""
        rows.append(MemoryRow(memory, page["total"], newest))
    return rows
