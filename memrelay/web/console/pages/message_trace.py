"""The page of one message: the tree of its messages, its records, and its dead letter."""

from functools import partial
from typing import Any

from aiohttp import web

from memrelay.bus.keys import input_key
from memrelay.memory.engine.timestamps import format_time
from memrelay.web.api.directory import Served
from memrelay.web.auth.access import get_caller, requires
from memrelay.web.console.calls import TIMEOUT_S, attempt
from memrelay.web.console.frame import as_page, render, render_page
from memrelay.web.console.page import Page
from memrelay.web.console.pipeline_values import find_served
from memrelay.web.console.refresh import answer_refresh
from memrelay.web.console.search_hits import record_url
from memrelay.web.openapi.route_docs import HTML, documented
from memrelay.web.server.services import get_services
from memrelay.web.trace.letters import read_rows
from memrelay.web.trace.nodes import MAX_NODES, MAX_RECORDS, make_nodes
from memrelay.web.trace.records import find_records
from memrelay.web.trace.said import read_said
from memrelay.web.trace.trace import parse_entry

PAGE = Page("Message trace", "/pipelines/{uid}/messages/{entry}", parent="Overview")
routes = web.RouteTableDef()


@routes.get(PAGE.path)
@documented({200: "The page.", 303: "Login required."}, media_type=HTML)
@as_page
@requires("read")
async def message_trace(request: web.Request) -> web.Response:
    """Show one message with everything that it led to."""
    served = await find_served(request)
    values = await _trace_values(request, served)
    return await render_page(request, PAGE, "message_trace.html", served, **values)


@routes.get(PAGE.path + "/tree")
@documented({200: "The fragment.", 304: "Nothing has changed."}, media_type=HTML)
@requires("read")
async def tree_fragment(request: web.Request) -> web.Response:
    """Return the messages, records and dead letter of a message."""
    served = await find_served(request)

    async def make() -> web.Response:
        return render("fragments/trace.html", **await _trace_values(request, served))

    # The state of a pipeline does not change when a replay fails again.
    version = await get_services(request).catalog.letters.read_version()
    return await answer_refresh(request, served, make, version)


async def _trace_values(request: web.Request, served: Served) -> dict[str, Any]:
    """Return the template values of a trace. Raises BadRequest."""
    entry, services = parse_entry(request.match_info["entry"]), get_services(request)
    uid = served.deployed.uid
    said = await read_said(services.line, served, entry)
    letter = await services.catalog.letters.find_of_entry(uid, entry)
    searched = find_records(request, served, entry, said.messages, TIMEOUT_S)
    written, fault = await attempt(request, uid, searched)
    records = written.records if written else []
    found = [letter] if letter else []
    rows = await read_rows(services.catalog.letters, found)
    return {
        "uid": uid,
        "entry": entry,
        "link": partial(record_url, uid),
        "nodes": make_nodes(said.messages, records),
        "messages": len(said.messages),
        "max_nodes": MAX_NODES,
        "records": records[:MAX_RECORDS],
        "record_count": len(records),
        "arrived_at": format_time(int(entry.partition("-")[0])),
        "is_waiting": bool(await services.line.call("XRANGE", input_key(uid), entry, entry)),
        "letter": rows[0] if rows else None,
        "is_complete": said.is_complete and (written is None or written.is_complete),
        "fault": fault,
        "caller": get_caller(request),
        "wait_s": services.options.max_wait_s,
    }
