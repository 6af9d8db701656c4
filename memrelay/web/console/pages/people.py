"""The page "People": the parts of the views of a store, and everything about one of them."""

from typing import Any
from urllib.parse import urlencode

from aiohttp import web

from memrelay.web.api.directory import Served
from memrelay.web.console.agents import list_record_stores
from memrelay.web.console.calls import Call, ask
from memrelay.web.console.frame import Page, PageRoutes
from memrelay.web.console.search_hits import record_url

PAGE = Page(
    "People",
    "/pipelines/{uid}/people",
    menu="pipeline",
    order=35,
    parent="Pipelines",
    scopes=("read",),
)
QUERY = {
    "store": "The memory_id of a store of the pipeline, by default the first.",
    "of": "A person, or another part of a view: show everything about it.",
    "beginning": "Only parts that begin with this text.",
}
routes = PageRoutes(PAGE, errors={404: "There is no such pipeline."}, query=QUERY)
# Parts of each view, and records of each view of one part.
MOST_PARTS, MOST_RECORDS = 50, 20


@routes.pipeline_page("people.html")
async def people(request: web.Request, served: Served) -> dict[str, Any]:
    """Show the parts of each view of a store, or everything about one part."""
    uid, stores = served.deployed.uid, list_record_stores(served)
    query = {name: request.query.get(name, "") for name in QUERY}
    store, of = query["store"] or stores[0], query["of"]
    values = await (_read_about if of else _list_parts)(request, uid, store, query)
    return {
        "stores": dict.fromkeys((*stores, store)),
        "store": store,
        "of": of,
        "beginning": query["beginning"],
        "link": lambda part: f"/pipelines/{uid}/people?{urlencode({'store': store, 'of': part})}",
        "record": lambda guid: record_url(uid, store, guid),
        "in_store": urlencode({"store": store}),
        **values,
    }


async def _read_about(
    request: web.Request, uid: str, store: str, query: dict[str, str]
) -> dict[str, Any]:
    call = Call("views.about", {"of": query["of"], "limit": MOST_RECORDS}, store)
    (about,) = await ask(request, uid, call)
    return {"views": about.output["views"] if about.output else [], "fault": about.fault}


async def _list_parts(
    request: web.Request, uid: str, store: str, query: dict[str, str]
) -> dict[str, Any]:
    (listed,) = await ask(request, uid, Call("views.list", {}, store))
    views = [one for one in (listed.output or {"items": []})["items"] if "per" in one["view"]]
    given = {"limit": MOST_PARTS} | {name: query[name] for name in ("beginning",) if query[name]}
    calls = [Call("views.parts", {"id": one["name"]} | given, store) for one in views]
    answers = [answer.output or {"items": []} for answer in await ask(request, uid, *calls)]
    return {"views": list(zip(views, answers, strict=True)), "fault": listed.fault}
