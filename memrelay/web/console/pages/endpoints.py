"""The pages of endpoints: one endpoint with its deliveries, a list of deliveries, and one delivery.

The list of endpoints is a part of the page "Webhooks".
"""

from typing import Any, NamedTuple, get_args
from urllib.parse import urlencode

from aiohttp import web

from memrelay.memory.endpoint_rules import Format
from memrelay.memory.models.endpoints.schedule import CIRCUIT_FAILURES
from memrelay.web.api.answers import parse_numeric_cursor
from memrelay.web.api.directory import Served
from memrelay.web.console.calls import Call, ask
from memrelay.web.console.frame import Page, PageRoutes, refuse_fault
from memrelay.web.console.pages import webhooks
from memrelay.web.console.search_hits import record_url
from memrelay.web.openapi.route_docs import NUMERIC_CURSOR_SCHEMA
from memrelay.web.server.errors import BadRequest, NotFound

FORMATS = get_args(Format)
STATES = ("", "waiting", "delivered", "failed")
PAGE_SIZE = 50
# The worker publishes no commit for a try.
EVERY_S = 2
LAST = 2**53 - 1
SCHEMAS = {"cursor": NUMERIC_CURSOR_SCHEMA}
FILTERS = {
    "state": "Only deliveries that are `waiting`, `delivered` or `failed`.",
    "cursor": "The cursor of a later page.",
}
PAGE = Page("Endpoint", "/pipelines/{uid}/endpoints/{id}", parent="Webhooks")
routes = PageRoutes(PAGE, errors={404: "There is no such pipeline or endpoint."}, query=FILTERS)
LIST_PAGE = Page("Deliveries", "/pipelines/{uid}/deliveries", parent="Webhooks")
LIST_FILTERS = {"subject": "Only deliveries about this record or other item."} | FILTERS
list_routes = PageRoutes(LIST_PAGE, errors={404: "There is no such pipeline."}, query=LIST_FILTERS)
DELIVERY_PAGE = Page("Delivery", "/pipelines/{uid}/deliveries/{id}", parent="Webhooks")
delivery_routes = PageRoutes(DELIVERY_PAGE, errors={404: "There is no such pipeline or delivery."})


class EndpointRow(NamedTuple):
    """An endpoint with its state in words. `success` is the share of accepted deliveries, ""
    for none."""

    endpoint: dict[str, Any]
    state: str
    is_bad: bool
    success: str


async def list_endpoints(request: web.Request, served: Served) -> dict[str, Any]:
    """Return the template values of the list of endpoints."""
    (answer,) = await ask(request, served.deployed.uid, Call("endpoints.list", {}))
    endpoints = answer.output["items"] if answer.output else []
    rows = [_make_row(one) for one in endpoints]
    return {"endpoints": rows, "endpoints_fault": answer.fault, "formats": FORMATS}


@webhooks.routes.part("/endpoints", "fragments/endpoints.html", every_s=EVERY_S, query={})
async def endpoint_list(request: web.Request, served: Served) -> dict[str, Any]:
    """Return the list of endpoints."""
    values = await list_endpoints(request, served)
    refuse_fault(values["endpoints_fault"])
    return values


def _make_row(endpoint: dict[str, Any]) -> EndpointRow:
    delivered, failed = endpoint["delivered"], endpoint["failed"]
    success = f"{100 * delivered / (delivered + failed):.0f} %" if delivered + failed else ""
    if not endpoint["active"]:
        return EndpointRow(endpoint, f"Off: {endpoint['disabled']}", True, success)
    failures = endpoint["failures"]
    if failures >= CIRCUIT_FAILURES:
        state = f"Circuit open: one try a minute after {failures} failures in a row"
        return EndpointRow(endpoint, state, True, success)
    return EndpointRow(endpoint, "Active", False, success)


@routes.pipeline_page("endpoint.html", query_schemas=SCHEMAS)
async def endpoint(request: web.Request, served: Served) -> dict[str, Any]:
    """Show an endpoint with its deliveries."""
    return await _endpoint_values(request, served)


@routes.part("/rows", "fragments/endpoint.html", every_s=EVERY_S, query_schemas=SCHEMAS)
async def endpoint_rows(request: web.Request, served: Served) -> dict[str, Any]:
    """Return the state and the deliveries of an endpoint."""
    values = await _endpoint_values(request, served)
    refuse_fault(values["fault"])
    return values


async def _endpoint_values(request: web.Request, served: Served) -> dict[str, Any]:
    """Return the template values of an endpoint; `row` is None if no worker answers.

    Raises NotFound.
    """
    id_, uid = request.match_info["id"], served.deployed.uid
    listed = await list_endpoints(request, served)
    row = next((one for one in listed["endpoints"] if one.endpoint["id"] == id_), None)
    if row is None and not listed["endpoints_fault"]:
        raise NotFound("There is no such endpoint. It may have been deleted.")
    base = f"/pipelines/{uid}/endpoints/{id_}"
    values = await _list_deliveries(request, served, base, {"endpoint": id_})
    return values | {"row": row, "endpoint_id": id_, "formats": FORMATS}


@list_routes.pipeline_page("deliveries.html", query_schemas=SCHEMAS, ident="deliveries.deliveries")
async def deliveries(request: web.Request, served: Served) -> dict[str, Any]:
    """Show the deliveries of a pipeline."""
    subject = request.query.get("subject", "")
    base, more = f"/pipelines/{served.deployed.uid}/deliveries", {"subject": subject}
    values = await _list_deliveries(request, served, base, more if subject else {})
    return values | {"subject": subject}


async def _list_deliveries(
    request: web.Request, served: Served, base: str, which: dict[str, str]
) -> dict[str, Any]:
    """Return the template values of a list of deliveries. Raises BadRequest and NotFound."""
    state, cursor = request.query.get("state", ""), request.query.get("cursor", "0")
    before = parse_numeric_cursor(cursor, LAST)
    if state not in STATES:
        raise BadRequest("`state` must be waiting, delivered or failed")
    input = which | {"state": state, "before": before, "limit": PAGE_SIZE}
    (answer,) = await ask(request, served.deployed.uid, Call("deliveries.list", input))
    page = answer.output or {"items": [], "next": 0}
    in_url = {name: value for name, value in which.items() if name == "subject"}

    def url(**values: Any) -> str:
        query = urlencode(in_url | {name: value for name, value in values.items() if value})
        return f"{base}?{query}" if query else base

    return {
        "deliveries": page["items"],
        "next_url": url(state=state, cursor=page["next"]) if page["next"] else "",
        "rows_url": f"{base}/rows?{urlencode({'state': state, 'cursor': cursor})}",
        "state": state,
        "url": url,
        "fault": answer.fault,
    }


@delivery_routes.pipeline_page("delivery.html", ident="delivery.delivery")
async def delivery(request: web.Request, served: Served) -> dict[str, Any]:
    """Show a delivery with its tries."""
    return await _delivery_values(request, served)


@delivery_routes.part("/tries", "fragments/delivery.html", every_s=EVERY_S, ident="delivery.tries")
async def delivery_tries(request: web.Request, served: Served) -> dict[str, Any]:
    """Return the state and the tries of a delivery."""
    values = await _delivery_values(request, served)
    refuse_fault(values["fault"])
    return values


async def _delivery_values(request: web.Request, served: Served) -> dict[str, Any]:
    """Return the template values of a delivery, None if no worker answers. Raises NotFound."""
    id_, uid = request.match_info["id"], served.deployed.uid
    (answer,) = await ask(request, uid, Call("deliveries.get", {"id": id_}))
    found = answer.output or {"delivery": None, "tries": []}
    one = found["delivery"]
    is_record = one is not None and one["type"].startswith("record.")
    return {
        "id": id_,
        "delivery": one,
        "tries": found["tries"],
        "record": record_url(uid, one["store"], one["subject"]) if is_record else "",
        "fault": answer.fault,
    }
