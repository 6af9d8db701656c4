"""The page "Review": the writes of one store that wait, with their changes, and the decisions."""

from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import orjson
from aiohttp import web

from memrelay.memory.engine.memory_id import built_in_store
from memrelay.memory.records.word_diff import Piece, WordDiff
from memrelay.web.api.answers import json_response
from memrelay.web.api.directory import Served
from memrelay.web.api.operations import call_operation
from memrelay.web.auth.access import get_caller, requires
from memrelay.web.console.agents import list_record_stores
from memrelay.web.console.calls import Call, ask, ask_refusable
from memrelay.web.console.frame import Page, PageRoutes, find_served
from memrelay.web.console.search_hits import record_url
from memrelay.web.openapi.route_docs import documented
from memrelay.web.openapi.shapes import ProposalToApprove
from memrelay.web.server.errors import BadRequest, Conflict, NotFound
from memrelay.web.server.request_body import read_json_body

SCOPE = "review"
PAGE = Page(
    "Review",
    "/pipelines/{uid}/reviews",
    menu="pipeline",
    order=25,
    parent="Pipelines",
    scopes=(SCOPE,),
)
QUERY = {
    "store": "The memory_id of a store of the pipeline, by default the first.",
    "policy": "Only the writes that this policy holds.",
    "cursor": "The cursor of a later page.",
}
# What calls do with records, by their verb; others change one.
EFFECTS = {"delete": "deletes a record", "merge": "keeps one of two records"}
ERRORS = {404: "There is no such pipeline.", 422: "A parameter is invalid."}
FOR_REVIEWERS = requires(SCOPE)
routes = PageRoutes(PAGE, errors=ERRORS, query=QUERY, access=FOR_REVIEWERS)
# Each one on a page is read with its changes and a search for similar records.
PAGE_SIZE = 20


class Row(NamedTuple):
    """A write that waits. `words` are its changes, None for a new record or a too long text."""

    proposal: dict[str, Any]
    words: WordDiff | None
    # The text that an edit changes, None if there is none.
    text: str | None
    has_changed: bool
    near: list[dict[str, Any]]
    # What the call does with its record.
    effect: str
    # The second record, which the call deletes; None for none.
    other: dict[str, Any] | None
    # The reason of the call, "" for none.
    why: str
    # The whole input as JSON, "" if it is hidden. A call can write more than its candidate.
    input: str
    target_url: str
    message_url: str


@routes.pipeline_page("reviews.html")
async def reviews(request: web.Request, served: Served) -> dict[str, Any]:
    """Show the writes that wait for review in a store."""
    return await _list_rows(request, served)


@routes.part("/rows", "fragments/reviews.html")
async def reviews_rows(request: web.Request, served: Served) -> dict[str, Any]:
    """Return the writes that wait."""
    return await _list_rows(request, served)


@routes.post(PAGE.path)
@documented(
    {200: "It is approved.", 400: "The body is invalid.", 409: "It cannot be approved now."}
    | ERRORS,
    body="The proposal.",
    body_schema=ProposalToApprove,
    query={"store": QUERY["store"]},
    ident="reviews.approve_one",
)
@FOR_REVIEWERS
async def approve_one(request: web.Request) -> web.Response:
    """Approve one write. A conflict is an error here, so that the page shows it."""
    served = await find_served(request)
    try:
        given = orjson.loads(await read_json_body(request))
        guid, version = given["guid"], given.get("version", "")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BadRequest('the body must be {"guid": "..."}') from error
    store = request.query.get("store", "")
    input = {"guids": [guid]} | ({"versions": [version]} if version else {})
    output = await call_operation(request, "reviews.approve", served.deployed.uid, input, store)
    (decision,) = output["items"]
    if decision["status"] == "missing":
        raise NotFound(decision["detail"])
    if decision["status"] != "approved":
        raise Conflict(decision["detail"])
    return json_response(decision)


async def _list_rows(request: web.Request, served: Served) -> dict[str, Any]:
    """Return the template values of a page of the list."""
    uid, stores = served.deployed.uid, _list_stores(served)
    query = {name: request.query.get(name, "") for name in QUERY}
    store = query["store"] or stores[0]
    wanted = {name: query[name] for name in ("policy", "cursor") if query[name]}
    (answer,) = await ask(request, uid, Call("reviews.list", wanted | {"limit": PAGE_SIZE}, store))
    output = answer.output or {"items": [], "next_cursor": None}
    following = {"store": store, "policy": query["policy"], "cursor": output["next_cursor"] or ""}
    return {
        "stores": dict.fromkeys((*stores, store)),
        "store": store,
        "policy": query["policy"],
        "cursor": query["cursor"],
        "rows": await _read_rows(request, uid, store, output["items"]),
        "fault": answer.fault,
        "next_query": urlencode(following) if output["next_cursor"] else "",
        "query": urlencode({name: value for name, value in query.items() if value}),
        "in_store": urlencode({"store": store}),
    }


def _list_stores(served: Served) -> list[str]:
    """Return the stores whose writes can wait, those with records of blocks first."""
    uid = served.deployed.uid
    built_in = [built_in_store(uid, name) for name in ("stores", "langgraph", "recipes")]
    return list(dict.fromkeys((*list_record_stores(served), *built_in)))


async def _read_rows(
    request: web.Request, uid: str, store: str, items: list[dict[str, Any]]
) -> list[Row]:
    """Return the rows. One that is decided in the meantime has no details."""
    may_read = "read" in get_caller(request).scopes
    rows = []
    for item in items:
        call = Call("reviews.get", {"guid": item["guid"]}, store)
        found = (await ask_refusable(request, uid, call, NotFound)).output or {}
        diff, given = found.get("diff"), found.get("input")
        message = item["origin"].get("message", "")
        row = Row(
            item,
            None if diff is None else WordDiff([Piece(**one) for one in diff]),
            found.get("text"),
            found.get("has_changed", False),
            found.get("near", []),
            _describe_effect(item),
            found.get("other"),
            (given or {}).get("reason", ""),
            orjson.dumps(given, option=orjson.OPT_INDENT_2).decode() if given else "",
            record_url(uid, store, item["target"]) if item["target"] and may_read else "",
            f"/pipelines/{uid}/messages/{quote(message)}" if message and may_read else "",
        )
        rows.append(row)
    return rows


def _describe_effect(item: dict[str, Any]) -> str:
    """Return what the call of a proposal does, in a few words."""
    if not item["target"]:
        return "creates a record"
    return EFFECTS.get(item["operation"].partition(".")[2], "changes a record")
