"""/live, /ready, /status and /metrics."""

import asyncio
from typing import Any

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from memrelay.bus.errors import BusError
from memrelay.bus.permissions import try_a_write
from memrelay.memory.errors import StoreBroken, StoreBusy
from memrelay.web.api.answers import json_response
from memrelay.web.api.status import limited, read_status
from memrelay.web.auth.access import caller_of, needs, open_to_all
from memrelay.web.openapi.route_docs import TEXT, described
from memrelay.web.openapi.shapes import Live, Ready, Status
from memrelay.web.server.metrics import render
from memrelay.web.server.services import Services, services_of

routes = web.RouteTableDef()
PATIENCE_S = 2.0  # with a bus that does not answer; who asks for health does not wait for long


@routes.get("/live")
@described({200: "it does"}, gives={200: Live})
@open_to_all
async def live(_: web.Request) -> web.Response:
    """The process answers."""
    return json_response({"live": True})


@routes.get("/ready")
@described(
    {200: "yes", 503: "no, with what is wrong"},
    query={"pipeline": "this pipeline must be run too"},
    gives={200: Ready, 503: Ready},
)
@open_to_all
async def ready(request: web.Request) -> web.Response:
    """200 where a message would be taken, durably; 503 with what is wrong, told in full to who sees
    all pipelines.

    `paused` tells which pipelines wait to be run. With `?pipeline=UID` that one must be run too:
    503 while it is paused, or has
    no owner.
    """
    parts, uid = services_of(request), request.query.get("pipeline", "")
    caller = await parts.authoriser.caller_or_stranger(request)
    checks = {"bus": await _bus_fault(parts), "catalogue": await _catalogue_fault(parts)}
    found = await _status(parts) if caller.pipelines and not any(checks.values()) else None
    pipelines = limited(found, caller.sees)["pipelines"] if found else []
    paused = {one["pipeline_uid"]: one["paused"] for one in pipelines if one["paused"]}
    told = {name: _told(fault, caller.sees_all) for name, fault in checks.items()}
    if uid:
        checks["pipeline"] = _pipeline_fault(uid, pipelines)
        told["pipeline"] = checks["pipeline"] or "ok"
    wrong = any(checks.values())
    body = {"ready": not wrong, "checks": told} | ({"paused": paused} if paused else {})
    return json_response(body, 503 if wrong else 200)


def _told(fault: str, whole: bool) -> str:
    return (fault if whole else "not ok") if fault else "ok"


@routes.get("/status")
@described({200: "as it is now"}, gives={200: Status})
@needs("read")
async def status(request: web.Request) -> web.Response:
    """Workers, pipelines with rate, lag and dead letters, and which durability is in force."""
    parts = services_of(request)
    found, caller = await read_status(parts.catalog, parts.line), caller_of(request)
    if not caller.sees_all:
        return json_response(limited(found, caller.sees))
    return json_response(
        {"bus": parts.options.bus_name, "listeners": parts.traffic.listeners} | found
    )


@routes.get("/metrics")
@described({200: "in the format of Prometheus"}, kind=TEXT)
@needs("read")
async def metrics(request: web.Request) -> web.Response:
    """For Prometheus."""
    parts, caller = services_of(request), caller_of(request)
    found = await _status(parts)
    if not caller.sees_all:
        found = limited(found, caller.sees) if found else None
    page = render(found, parts.traffic if caller.sees_all else None)
    return web.Response(body=page, headers={"Content-Type": CONTENT_TYPE_LATEST})


async def _status(parts: Services) -> dict[str, Any] | None:
    """As /status has it, where it can be had soon."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await read_status(parts.catalog, parts.line)
    except (BusError, StoreBusy, StoreBroken, TimeoutError):
        return None


def _pipeline_fault(uid: str, pipelines: list[dict[str, Any]]) -> str:
    for one in pipelines:
        if one["pipeline_uid"] == uid:
            return str(one["paused"]) or (
                "" if one["owner"] else "no worker serves it; start one with `memrelay worker`"
            )
    return f"no pipeline {uid[:100]!r} is in service, or the bus does not tell"


async def _bus_fault(parts: Services) -> str:
    """Why it takes nothing; "" where it does."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            await try_a_write(parts.line)
    except BusError as error:
        return str(error)
    except TimeoutError:
        return f"the bus is there, and has not answered for {PATIENCE_S:g} s"
    return ""


async def _catalogue_fault(parts: Services) -> str:
    try:
        await parts.catalog.active()
    except (StoreBusy, StoreBroken) as error:
        return str(error)
    return ""
