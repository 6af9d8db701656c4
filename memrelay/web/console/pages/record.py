"""The page of one record: its text and fields, its history, and what is near it."""

from typing import Any

import orjson
from aiohttp import web

from memrelay.memory.records.kinds import is_agent_memory, reserved_fault
from memrelay.web.api.answers import is_unchanged
from memrelay.web.api.directory import Served
from memrelay.web.auth.access import get_caller, requires
from memrelay.web.console.calls import Wanted, ask
from memrelay.web.console.frame import as_page, render, render_page
from memrelay.web.console.page import Page
from memrelay.web.console.pipeline_values import find_served
from memrelay.web.console.record.commands import make_record_commands
from memrelay.web.console.record.history import compare_states, describe_deletion, list_rows
from memrelay.web.console.record.origin import find_entry
from memrelay.web.console.record.reads import (
    PAGE_SIZE,
    Nearby,
    Reading,
    RecordRef,
    find_record,
    read_nearby,
    read_record,
)
from memrelay.web.console.record.text import Clipped, clip_bytes
from memrelay.web.console.refresh import answer_refresh, answer_tagged, make_tag
from memrelay.web.console.stores import list_record_stores
from memrelay.web.openapi.route_docs import HTML, documented
from memrelay.web.server.errors import NotFound
from memrelay.web.server.services import get_services

PAGE = Page("Record", "/pipelines/{uid}/memory/{guid}", parent="Memory")
QUERY = {
    "store": "The store, by default the first one that has the record.",
    "from": "The number of the version to compare, by default the one before `to`.",
    "to": "The number of the version to compare it with, by default the latest.",
    "before": "The number of a version: the history shows only earlier ones.",
}
ERASURE = {"erasure": "The number of the erasure to show once the record is erased."}
ERRORS = {404: "There is no such pipeline or record."}
MISSING = "Record not found. It may have expired or been erased."
# Bytes of the text and of the data on the page, each shown twice: to read and to edit.
MAX_TEXT_BYTES, MAX_DATA_BYTES = 48_000, 12_000
# Erasures among which the one of the record is looked up.
MAX_ERASURES = 1000
# The state of an erasure that will not change any more.
COMPLETE = "complete"
routes = web.RouteTableDef()


@routes.get(PAGE.path)
@documented(
    {200: "The page.", 303: "Login required."} | ERRORS, media_type=HTML, query=QUERY | ERASURE
)
@as_page
@requires("read")
async def record(request: web.Request) -> web.Response:
    """Show one record, deleted or not."""
    served = await find_served(request)
    ref, reading = await _find(request, served)
    if reading.latest is None and not reading.fault:
        return await _show_erasure(request, served, ref)
    present = reading.record
    nearby = await read_nearby(request, ref, present) if present else Nearby([], [])
    origin = f"{request.scheme}://{request.host}"
    return await render_page(
        request,
        PAGE,
        "record.html",
        served,
        nearby=nearby,
        commands=make_record_commands(origin, ref),
        **_text_values(request, served, ref, reading),
        **await _history_values(request, ref, reading),
    )


@routes.get(PAGE.path + "/text")
@documented(
    {200: "The fragment.", 304: "Nothing has changed."} | ERRORS,
    media_type=HTML,
    query={"store": QUERY["store"]},
)
@requires("read")
async def text_fragment(request: web.Request) -> web.Response:
    """Return the text and the fields of a record."""
    served = await find_served(request)

    async def make() -> web.Response:
        ref = _ref(request, served)
        values = _text_values(request, served, ref, await read_record(request, ref, limit=2))
        return render("fragments/record_text.html", caller=get_caller(request), **values)

    return await answer_refresh(request, served, make)


@routes.get(PAGE.path + "/history")
@documented(
    {200: "The fragment.", 304: "Nothing has changed."} | ERRORS, media_type=HTML, query=QUERY
)
@requires("read")
async def history_fragment(request: web.Request) -> web.Response:
    """Return the history of a record with the changes between two of its versions."""
    served = await find_served(request)

    async def make() -> web.Response:
        ref = _ref(request, served)
        reading = await read_record(request, ref, _before(request))
        values = await _history_values(request, ref, reading)
        values |= {"reading": reading, "ref": ref, "caller": get_caller(request)}
        return render("fragments/record_history.html", **values)

    return await answer_refresh(request, served, make)


@routes.get(PAGE.path + "/erasure")
@documented(
    {200: "The fragment.", 304: "Nothing has changed."} | ERRORS,
    media_type=HTML,
    query={"store": QUERY["store"]} | ERASURE,
)
@requires("admin")
async def erasure_fragment(request: web.Request) -> web.Response:
    """Return the progress of an erasure."""
    served = await find_served(request)
    if is_unchanged(request, make_tag(request, COMPLETE)):
        return answer_tagged(request, COMPLETE, web.Response)
    erasure = await _read_erasure(request, _ref(request, served))
    if erasure is None:
        raise NotFound("There is no such erasure.")
    state = COMPLETE if erasure.get("ended_at") else erasure
    return answer_tagged(
        request, state, lambda: render("fragments/record_erasure.html", erasure=erasure)
    )


def _ref(request: web.Request, served: Served) -> RecordRef:
    store = request.query.get("store") or list_record_stores(served)[0]
    return RecordRef(served.deployed.uid, store, request.match_info["guid"])


def _before(request: web.Request) -> str:
    given = request.query.get("before", "")
    return given if given.isascii() and given.isdecimal() else ""


async def _find(request: web.Request, served: Served) -> tuple[RecordRef, Reading]:
    store = request.query.get("store")
    stores = [store] if store else list_record_stores(served)
    return await find_record(request, served, stores, _before(request))


def _text_values(
    request: web.Request, served: Served, ref: RecordRef, reading: Reading
) -> dict[str, Any]:
    """Return the template values of the text and the fields."""
    record, last = reading.record, reading.last_record
    days = get_services(request).options.history_days
    content, data = Clipped("", 0), Clipped("", 0)
    if last:
        content = clip_bytes(last["content"], MAX_TEXT_BYTES)
        pretty = orjson.dumps(last["data"], option=orjson.OPT_INDENT_2).decode()
        data = clip_bytes(pretty, MAX_DATA_BYTES)
    return {
        "ref": ref,
        "reading": reading,
        "record": record,
        "content": content,
        "data": data,
        "deletion": describe_deletion(reading, days),
        "missing": MISSING,
        "entry": find_entry(served, ref.guid),
        "is_agent_memory": record is not None and is_agent_memory(record["kind"]),
        "is_reserved": record is not None and bool(reserved_fault(record["kind"])),
    }


async def _history_values(request: web.Request, ref: RecordRef, reading: Reading) -> dict[str, Any]:
    """Return the template values of the history."""
    more = len(reading.states) > PAGE_SIZE
    shown = {name: request.query.get(name, "") for name in ("from", "to", "before")}
    return {
        "history_url": ref.url("/history", **shown),
        "rows": list_rows(reading.states),
        "comparison": await compare_states(request, ref, reading),
        "older": str(reading.states[PAGE_SIZE - 1]["number"]) if more else "",
        "before": _before(request),
    }


async def _show_erasure(request: web.Request, served: Served, ref: RecordRef) -> web.Response:
    """Show the erasure of a record. Raises NotFound if there is none to show."""
    is_asked = "erasure" in request.query and "admin" in get_caller(request).scopes
    erasure = await _read_erasure(request, ref) if is_asked else None
    if erasure is None:
        raise NotFound(MISSING)
    number = request.query["erasure"]
    return await render_page(
        request, PAGE, "record_erased.html", served, ref=ref, erasure=erasure, number=number
    )


async def _read_erasure(request: web.Request, ref: RecordRef) -> dict[str, Any] | None:
    """Return the erasure in the address, or the `fault` why it cannot be read now."""
    wanted = Wanted("records.erasures", {"limit": MAX_ERASURES}, ref.store)
    (answer,) = await ask(request, ref.uid, wanted)
    if answer.fault:
        return {"fault": answer.fault}
    given = request.query.get("erasure", "")
    every = answer.output["items"]
    return next((one | {"fault": ""} for one in every if str(one["number"]) == given), None)
