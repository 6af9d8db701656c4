"""The page "Policies": the policies of a store, a field to test them, and a scan of its records."""

import json
from typing import Any
from urllib.parse import urlencode

import orjson
from aiohttp import web

from memrelay.memory.engine.memory_id import built_in_store
from memrelay.memory.records.data import LARGEST
from memrelay.web.api.answers import parse_numeric_cursor
from memrelay.web.api.directory import Served
from memrelay.web.auth.access import requires
from memrelay.web.console.agents import list_record_stores
from memrelay.web.console.calls import Answer, Call, ask, ask_refusable
from memrelay.web.console.frame import Page, PageRoutes, find_served, render
from memrelay.web.console.search_hits import record_url
from memrelay.web.openapi.route_docs import HTML, NUMERIC_CURSOR_SCHEMA, documented
from memrelay.web.openapi.shapes import TextToTest
from memrelay.web.server.errors import BadRequest
from memrelay.web.server.request_body import read_json_body

PAGE = Page(
    "Policies",
    "/pipelines/{uid}/policies",
    menu="pipeline",
    order=45,
    parent="Pipelines",
    scopes=("admin",),
)
ERRORS = {404: "There is no such pipeline."}
QUERY = {
    "store": "The store, by default the first one of the pipeline.",
    "scan": "1 shows what the policies would have done with the records of the store.",
    "after": "The cursor of a later page of the scan.",
}
routes = PageRoutes(PAGE, errors=ERRORS, query=QUERY, access=requires("admin"))
# Built-in stores whose records have their own pages or operations.
FURTHER = ("stores", "recipes", "langgraph")
MOST_VERDICTS, MOST_SCANNED = 20, 200
FIELDS = ("content", "kind", "source", "store")


@routes.pipeline_page("policies.html", query_schemas={"after": NUMERIC_CURSOR_SCHEMA})
async def policies(request: web.Request, served: Served) -> dict[str, Any]:
    """Show the policies of a store, their verdicts, and what they would do."""
    uid, stores = served.deployed.uid, _list_stores(served)
    store = request.query.get("store") or stores[0]
    calls = [
        Call("policies.list", {}, store),
        Call("policies.verdicts", {"limit": MOST_VERDICTS}, store),
    ]
    has_scan = request.query.get("scan") == "1"
    if has_scan:
        after = parse_numeric_cursor(request.query.get("after", "0"), LARGEST)
        calls.append(Call("policies.scan", {"after": after, "limit": MOST_SCANNED}, store))
    listed, verdicts, *scans = await ask(request, uid, *calls)
    return {
        "store": store,
        "stores": stores,
        "policies": listed.output["items"] if listed.output else [],
        "verdicts": verdicts.output["items"] if verdicts.output else [],
        "fault": listed.fault,
        "link": lambda guid: record_url(uid, store, guid),
        "to_json": lambda value: json.dumps(value, ensure_ascii=False),
        **_read_scan(uid, store, scans),
    }


def _list_stores(served: Served) -> list[str]:
    further = [built_in_store(served.deployed.uid, name) for name in FURTHER]
    return list(dict.fromkeys([*list_record_stores(served), *further]))


def _read_scan(uid: str, store: str, scans: list[Answer]) -> dict[str, Any]:
    """Return the template values of a scan. `scan` is None without one."""
    if not scans:
        return {"scan": None, "next_url": "", "scan_fault": ""}
    (scan,) = scans
    after = scan.output["next"] if scan.output else 0
    query = urlencode({"store": store, "scan": 1, "after": after})
    next_url = f"/pipelines/{uid}/policies?{query}" if after else ""
    return {"scan": scan.output, "next_url": next_url, "scan_fault": scan.fault}


@routes.post(PAGE.path)
@documented(
    {200: "What the policies would do.", 400: "The body is invalid."} | ERRORS,
    media_type=HTML,
    body="The text.",
    body_schema=TextToTest,
    ident="policies.try",
)
@requires("admin")
async def try_text(request: web.Request) -> web.Response:
    """Return what the policies of a store would do with a text. Nothing is stored."""
    served = await find_served(request)
    try:
        body = orjson.loads(await read_json_body(request))
        given = {name: body[name] for name in FIELDS if body.get(name)}
    except (AttributeError, TypeError, ValueError) as error:
        raise BadRequest('the body must be an object like {"content": "a text"}') from error
    store = given.pop("store", "") or _list_stores(served)[0]
    call = Call("policies.test", given, store)
    answer = await ask_refusable(request, served.deployed.uid, call)
    return render(
        request, "fragments/policy_outcome.html", outcome=answer.output, fault=answer.fault
    )
