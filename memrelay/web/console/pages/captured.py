"""The page "Captured": the captured sessions of a day, and a button that undoes one."""

from typing import Any

from aiohttp import web

from memrelay.web.api.directory import Served
from memrelay.web.console.agents import list_record_stores
from memrelay.web.console.calls import Answer, Call, ask_refusable
from memrelay.web.console.frame import Page, PageRoutes

PAGE = Page("Captured", "/pipelines/{uid}/captured", menu="pipeline", order=27, parent="Pipelines")
QUERY = {
    "store": "The store, by default the first one of the pipeline.",
    "day": "The day as 2026-11-29, by default today in the time zone of the pipeline.",
}
ERRORS = {404: "There is no such pipeline."}
routes = PageRoutes(PAGE, errors=ERRORS, query=QUERY)


@routes.pipeline_page("captured.html")
async def captured(request: web.Request, served: Served) -> dict[str, Any]:
    """Show the captured sessions of a day in a store."""
    return await _list_sessions(request, served)


@routes.part("/rows", "fragments/captured.html", ident="captured.captured_rows")
async def captured_rows(request: web.Request, served: Served) -> dict[str, Any]:
    """Return the table of sessions."""
    return await _list_sessions(request, served)


async def _list_sessions(request: web.Request, served: Served) -> dict[str, Any]:
    stores = list_record_stores(served)
    store, day = request.query.get("store") or stores[0], request.query.get("day", "")
    call = Call("capture.sessions", {"day": day}, store)
    answer: Answer = await ask_refusable(request, served.deployed.uid, call)
    chosen = {"store": store} | ({"day": day} if day else {})
    return {"stores": stores, "store": store, "day": day, "answer": answer, "chosen": chosen}
