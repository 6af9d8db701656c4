"""The page "Memory": the records of a store, and a search in it with the reasons for each hit."""

from functools import cache
from typing import Any, NamedTuple

import orjson
from aiohttp import hdrs, web

from memrelay.web.api.directory import Served
from memrelay.web.auth.access import get_caller, requires
from memrelay.web.console.calls import Wanted, ask
from memrelay.web.console.frame import HEADERS, as_page, load_macro, render, render_page
from memrelay.web.console.memory_view import MODES, MemoryView, parse_view
from memrelay.web.console.page import Page
from memrelay.web.console.pipeline_values import find_served
from memrelay.web.console.refresh import answer_refresh, refuse_fault
from memrelay.web.console.search_hits import Hits, read_hits, record_url
from memrelay.web.console.stores import list_record_stores
from memrelay.web.openapi.route_docs import HTML, documented
from memrelay.web.server.errors import Unprocessable

PAGE = Page("Memory", "/pipelines/{uid}/memory", menu="pipeline", order=10, parent="Pipelines")
EXPORT_TYPE = "application/x-ndjson"
QUERY = {
    "store": "The store, by default the first one of the pipeline.",
    "q": "Search for this.",
    "mode": f"The mode of the search: {', '.join(MODES)}.",
    "compare": "A second mode, whose hits are shown next to the others.",
    "kind": "Only records of this kind.",
    "scope": "Only records of this scope.",
    "source": "Only records of this source.",
    "tag": "Only records with this tag. It may be repeated.",
    "owner": "Only records of this owner.",
    "thread": "Only turns of this conversation.",
    "key": "Only records with this key.",
    "filter": "Only records that pass this filter, in JSON (docs/filters.md).",
    "deleted": "1 lists deleted records that can be restored.",
    "expires": "1 lists only records with an expiry time.",
    "order": "asc or desc, by arrival.",
    "cursor": "The cursor of a later page.",
}
ERRORS = {400: "A parameter is invalid.", 404: "There is no such pipeline."}
routes = web.RouteTableDef()


class Listed(NamedTuple):
    """What the page shows: a page of a list, or hits by mode, or why there is nothing now.

    `is_invalid` tells that the fault is one of the filter or the query.
    """

    items: list[dict[str, Any]]
    total: int = 0
    next_cursor: str = ""
    searches: tuple[Hits, ...] = ()
    fault: str = ""
    is_invalid: bool = False


@routes.get(PAGE.path)
@documented({200: "The page.", 303: "Login required."} | ERRORS, media_type=HTML, query=QUERY)
@as_page
@requires("read")
async def memory(request: web.Request) -> web.Response:
    """Show the records of a store, or the hits of a search."""
    served = await find_served(request)
    view = _parse(request, served)
    return await render_page(
        request,
        PAGE,
        "memory.html",
        served,
        stores=list_record_stores(served),
        modes=MODES,
        **await _list_values(request, served, view),
    )


@routes.get(PAGE.path + "/rows")
@documented(
    {200: "The fragment.", 304: "Nothing has changed."} | ERRORS, media_type=HTML, query=QUERY
)
@requires("read")
async def memory_rows(request: web.Request) -> web.Response:
    """Return the list of the page."""
    served = await find_served(request)

    async def make() -> web.Response:
        values = await _list_values(request, served, _parse(request, served))
        listed = values["listed"]
        refuse_fault("" if listed.is_invalid else listed.fault)
        return render("fragments/memory_rows.html", uid=served.deployed.uid, **values)

    return await answer_refresh(request, served, make)


@routes.get(PAGE.path + "/export")
@documented(
    {200: "One record per line.", 422: "The filter or the query is invalid."} | ERRORS,
    media_type=EXPORT_TYPE,
    query=QUERY,
)
@requires("read")
async def memory_export(request: web.Request) -> web.Response:
    """Return the shown records as JSON lines."""
    served = await find_served(request)
    listed = await _read(request, served, _parse(request, served))
    if listed.fault:
        raise Unprocessable(listed.fault)
    hits = [hit.record for search in listed.searches[:1] for hit in search.found]
    lines = b"".join(orjson.dumps(one) + b"\n" for one in hits or listed.items)
    headers = HEADERS | {hdrs.CONTENT_DISPOSITION: 'attachment; filename="records.jsonl"'}
    return web.Response(body=lines, content_type=EXPORT_TYPE, headers=headers)


def _parse(request: web.Request, served: Served) -> MemoryView:
    path = PAGE.path.replace("{uid}", served.deployed.uid)
    return parse_view(path, request.query, list_record_stores(served))


async def _list_values(request: web.Request, served: Served, view: MemoryView) -> dict[str, Any]:
    """Return the template values of the list."""
    # The records of a page repeat their values.
    narrow, badge = cache(view.url_with), load_macro("memory_meta.html", "badge")
    return {
        "view": view,
        "listed": await _read(request, served, view),
        "may_search": "search" in get_caller(request).scopes,
        "narrow": narrow,
        "badge": cache(lambda name, value: badge(name, value, narrow(name, value))),
        "link": lambda guid: record_url(served.deployed.uid, view.store, guid),
    }


async def _read(request: web.Request, served: Served, view: MemoryView) -> Listed:
    """Return what the view selects. An invalid filter or query is shown on the page."""
    try:
        return await _find(request, served.deployed.uid, view)
    except Unprocessable as error:
        faults = error.members.get("faults", [])
        rules = "; ".join(f"{one['pointer']}: {one['rule']}" for one in faults)
        detail = f"{error.detail[:1].upper()}{error.detail[1:]}."
        return Listed([], fault=rules or detail, is_invalid=True)


async def _find(request: web.Request, uid: str, view: MemoryView) -> Listed:
    if not view.query:
        (answer,) = await ask(request, uid, Wanted("records.list", view.list_input(), view.store))
        if answer.fault:
            return Listed([], fault=answer.fault)
        page = answer.output
        return Listed(page["items"], page["total"], page["next_cursor"] or "")
    modes = [mode for mode in (view.mode, view.compare) if mode]
    wanted = [Wanted("records.search", view.search_input(mode), view.store) for mode in modes]
    answers = await ask(request, uid, *wanted)
    fault = next((answer.fault for answer in answers if answer.fault), "")
    if fault:
        return Listed([], fault=fault)
    pairs = zip(answers, modes, strict=True)
    return Listed(
        [], searches=tuple(read_hits(one.output, mode, view.query) for one, mode in pairs)
    )
