"""The page "Undo": what an undo of the changes of a writer, an import, a turn or a period would do,
and a button that does it.
"""

from typing import Any

from aiohttp import web

from memrelay.web.api.directory import Served
from memrelay.web.auth.access import get_caller
from memrelay.web.console.agents import list_record_stores
from memrelay.web.console.calls import Call, ask_refusable
from memrelay.web.console.frame import Page, PageRoutes

PAGE = Page("Undo", "/pipelines/{uid}/undo", menu="pipeline", order=62, parent="Pipelines")
UNDO = "records.undo"
CONDITIONS = {
    "key": "Changes with this API key, by its id.",
    "source": "Changes of this agent, program or sender.",
    "way_in": "Changes that came in this way: import:<label>, turn:<id>, undo:<label>.",
    "since": "Changes after this time.",
    "until": "Changes up to this time.",
}
QUERY = {"store": "The store, by default the first one."} | CONDITIONS
ERRORS = {404: "There is no such pipeline."}
# Steps of the preview, and conflicts that are listed.
MAX_STEPS, SHOWN = 4, 20
Json = dict[str, Any]
routes = PageRoutes(PAGE, errors=ERRORS, query=QUERY)


@routes.pipeline_page("undo.html")
async def undo(request: web.Request, served: Served) -> Json:
    """Show a form that selects changes, and what their undo would do."""
    stores = list_record_stores(served)
    given = {name: request.query.get(name, "").strip() for name in CONDITIONS}
    chosen = {name: value for name, value in given.items() if value}
    store = request.query.get("store") or stores[0]
    is_admin = "admin" in get_caller(request).scopes
    preview = await _preview(request, served, chosen, store) if chosen and is_admin else None
    values = {"stores": stores, "store": store, "given": given, "preview": preview}
    return values | {"address": chosen | {"store": store}}


async def _preview(request: web.Request, served: Served, chosen: Json, store: str) -> Json:
    """Return what the first steps would do, and the input of the first one with a change."""
    found: Json = {"deleted": 0, "restored": 0, "conflicts": [], "fault": "", "body": None}
    cursor: str | None = ""
    for _ in range(MAX_STEPS):
        body = chosen | {"cursor": cursor}
        call = Call(UNDO, body | {"dry_run": True}, store)
        answer = await ask_refusable(request, served.deployed.uid, call)
        if answer.output is None:
            return found | {"fault": answer.fault}
        for name in ("deleted", "restored", "conflicts"):
            found[name] += answer.output[name]
        if found["body"] is None and (found["deleted"] or found["restored"]):
            found["body"] = body
        cursor = answer.output["next_cursor"]
        if cursor is None:
            break
    found["has_more"] = cursor is not None
    found["hidden"] = max(len(found["conflicts"]) - SHOWN, 0)
    found["conflicts"] = found["conflicts"][:SHOWN]
    return found
