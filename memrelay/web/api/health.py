"""/live, /ready, /healthz, /status, and /metrics."""

import asyncio
from typing import Any

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from memrelay.bus.errors import BusError
from memrelay.bus.lease.workers import read_workers
from memrelay.bus.permissions import check_writable
from memrelay.memory.errors import StoreBroken, StoreBusy
from memrelay.web.api.answers import json_response
from memrelay.web.api.status import filter_status, read_status
from memrelay.web.auth.access import get_caller, open_to_all, requires
from memrelay.web.openapi.route_docs import HTML, TEXT, documented
from memrelay.web.openapi.shapes import Live, Ready, Status
from memrelay.web.server.metrics import render_metrics
from memrelay.web.services import Services, get_services

routes = web.RouteTableDef()
# Health checks must answer soon even if the bus hangs.
BUS_TIMEOUT_S = 2.0


@routes.get("/live")
@documented({200: "The process answers."}, schemas={200: Live})
@open_to_all
async def live(_: web.Request) -> web.Response:
    """Check that the process answers."""
    return json_response({"live": True})


@routes.get("/ready")
@documented(
    {200: "Ready.", 503: "Not ready; `checks` names the reasons."},
    query={
        "pipeline": "Also require that this pipeline runs.",
        "workers": "`1`: also require a worker.",
    },
    query_schemas={"workers": {"type": "string", "enum": ["1"]}},
    schemas={200: Ready, 503: Ready},
)
@open_to_all
async def ready(request: web.Request) -> web.Response:
    """Check that messages can be accepted durably.

    `checks` names the reasons only for callers that see all pipelines. `paused` lists the paused
    pipelines. With `?pipeline=UID`, that pipeline must have an owner and must not be paused. With
    `?workers=1`, a worker must have sent its heartbeat within 10 s.
    """
    services, uid = get_services(request), request.query.get("pipeline", "")
    caller = await services.authorizer.get_caller_or_anonymous(request)
    faults = {"bus": await _bus_fault(services), "catalogue": await _catalog_fault(services)}
    if request.query.get("workers") == "1":
        faults["workers"] = await _workers_fault(services)
    has_fault = any(faults.values())
    status = await _read_status(services) if caller.pipelines and not has_fault else None
    pipelines = filter_status(status, caller.sees)["pipelines"] if status else []
    paused = {one["pipeline_uid"]: one["paused"] for one in pipelines if one["paused"]}
    checks = {name: _summarize(fault, caller.sees_all) for name, fault in faults.items()}
    if uid:
        fault = _pipeline_fault(uid, pipelines)
        has_fault, checks["pipeline"] = has_fault or bool(fault), fault or "ok"
    body = {"ready": not has_fault, "checks": checks} | ({"paused": paused} if paused else {})
    return json_response(body, 503 if has_fault else 200)


@routes.get("/healthz")
@documented({200: "Ready.", 503: "Not ready."}, schemas={200: Ready, 503: Ready})
@open_to_all
async def healthz(request: web.Request) -> web.StreamResponse:
    """Answer like /ready, under the name that Kubernetes uses."""
    return await ready(request)


def _summarize(fault: str, show_reason: bool) -> str:
    return (fault if show_reason else "not ok") if fault else "ok"


# Its route is that of the page, which shows the same data (memrelay/web/console/pages/status.py).
@documented(
    {
        200: "The current status. A browser, which prefers text/html, gets a page instead.",
        303: "Login required. Only for a browser.",
    },
    media_type=HTML,
    query={"format": "`json`: JSON also for a browser."},
    query_schemas={"format": {"type": "string", "enum": ["json"]}},
    schemas={200: Status},
)
@requires("read")
async def status(request: web.Request) -> web.Response:
    """Show workers, pipelines with rate, lag, and dead letters, and the bus's durability."""
    services, caller = get_services(request), get_caller(request)
    found = await read_status(services.catalog, services.line)
    if not caller.sees_all:
        return json_response(filter_status(found, caller.sees))
    return json_response(
        {"bus": services.options.bus_name, "listeners": services.traffic.listeners} | found
    )


@routes.get("/metrics")
@documented({200: "Metrics in Prometheus' text format."}, media_type=TEXT)
@requires("read")
async def metrics(request: web.Request) -> web.Response:
    """Return metrics for Prometheus."""
    services, caller = get_services(request), get_caller(request)
    found = await _read_status(services)
    if not caller.sees_all:
        found = filter_status(found, caller.sees) if found else None
    requests = services.webhook_requests
    visible = {key: count for key, count in requests.counts.items() if caller.sees(key[0])}
    traffic = services.traffic if caller.sees_all else None
    page = render_metrics(found, traffic, visible, requests.unknown)
    return web.Response(body=page, headers={"Content-Type": CONTENT_TYPE_LATEST})


async def _read_status(services: Services) -> dict[str, Any] | None:
    """Return the status, or None if it is not available soon."""
    try:
        async with asyncio.timeout(BUS_TIMEOUT_S):
            return await read_status(services.catalog, services.line)
    except (BusError, StoreBusy, StoreBroken, TimeoutError):
        return None


def _pipeline_fault(uid: str, pipelines: list[dict[str, Any]]) -> str:
    for one in pipelines:
        if one["pipeline_uid"] == uid:
            return str(one["paused"]) or (
                "" if one["owner"] else "no worker serves it; start one with `memrelay worker`"
            )
    return f"no pipeline {uid[:100]!r} is active, or the bus does not answer"


async def _bus_fault(services: Services) -> str:
    """Return why the bus accepts no writes, or ""."""
    try:
        async with asyncio.timeout(BUS_TIMEOUT_S):
            await check_writable(services.line)
    except BusError as error:
        return str(error)
    except TimeoutError:
        return f"the bus is connected but has not answered for {BUS_TIMEOUT_S:g} s"
    return ""


async def _workers_fault(services: Services) -> str:
    """Return why no message would be processed, or ""."""
    try:
        async with asyncio.timeout(BUS_TIMEOUT_S):
            workers = await read_workers(services.line)
    except (BusError, TimeoutError):
        return "the bus did not answer"
    return "" if workers else "no worker runs; start one with `memrelay worker`"


async def _catalog_fault(services: Services) -> str:
    try:
        await services.catalog.active()
    except (StoreBusy, StoreBroken) as error:
        return str(error)
    return ""
