"""Saying something on a swarm, and reading its log."""

import time
from typing import Any

import orjson
from aiohttp import hdrs, web
from multidict import istr

from memrelay.bus.errors import NoAnswer
from memrelay.bus.keys import swarm_key
from memrelay.bus.streams.entry import LONGEST_ID, NewEntry, may_be_id
from memrelay.bus.streams.log import LogEntry, cursor_of, goes_on, read_log, read_log_back
from memrelay.web.api.answers import json_response, limit_of, refuse_unknown
from memrelay.web.api.directory import Served
from memrelay.web.api.live import follow_live
from memrelay.web.auth.access import caller_of, needs
from memrelay.web.openapi.route_docs import ENTERED, GIVEN, NAMED_BY, PAGED, WAITED, described
from memrelay.web.openapi.shapes import LogItem, Page
from memrelay.web.server.errors import BadRequest, NotFound, TooLate
from memrelay.web.server.request_body import read_body, to_envelope
from memrelay.web.server.services import Services, services_of

routes = web.RouteTableDef()
ID_HEADERS = istr("webhook-id"), istr("Idempotency-Key")
MESSAGES = "/v1/pipelines/{uid}/swarms/{swarm}/messages"
PAGE = 50


@routes.post(MESSAGES)
@described(
    ENTERED,
    body="an envelope, a message, any JSON, or text",
    query=WAITED,
    headers=NAMED_BY,
    gives=GIVEN,
)
@needs("publish")
async def say(request: web.Request) -> web.Response:
    """Says the body on a swarm, as `User` where it names nobody."""
    parts, served, swarm = await _place(request)
    data = to_envelope(
        await read_body(request),
        sender="User",
        now_ms=time.time_ns() // 1_000_000,
        bounds=parts.options,
    )
    ident = producer_id(request)
    return await enter(
        request, NewEntry(served.deployed.uid, data, swarm, producer_id=ident), ident
    )


@routes.get(MESSAGES)
@described(
    {101: "with Upgrade: a WebSocket that follows the log", 200: "a page of it"},
    query=PAGED
    | {"order": "asc (oldest first) or desc", "after": "of a WebSocket: the cursor to go on after"},
    gives={200: Page[LogItem]},
)
@needs("read")
async def read(request: web.Request) -> web.StreamResponse:
    """The log, a page at a time: {items, next_cursor, total}. With an Upgrade header, a WebSocket
    that follows it live."""
    parts, served, swarm = await _place(request)
    home = served.bundle.home_of(swarm)
    if request.headers.get(hdrs.UPGRADE, "").lower() == "websocket":
        return await follow_live(request, caller_of(request), home, swarm)
    refuse_unknown(request, ("cursor", "limit", "order"))
    cursor, limit, order = (
        _cursor(request),
        limit_of(request, PAGE),
        request.query.get("order", "asc"),
    )
    if order not in ("asc", "desc"):
        raise BadRequest("`order` is asc, oldest first, or desc")
    if order == "asc":
        said = await read_log(parts.line, home, swarm, after=cursor, limit=limit)
    else:
        said = await read_log_back(parts.line, home, swarm, before=cursor, limit=limit)
    total = await parts.line.call("XLEN", swarm_key(home, swarm))
    return json_response(
        {
            "items": [as_item(one) for one in said],
            "next_cursor": said[-1].cursor if goes_on(said, limit) else None,
            "total": total,
        }
    )


def as_item(said: LogEntry) -> dict[str, Any]:
    """A message of a log, in JSON."""
    return {"cursor": said.cursor, "mid": said.mid, "message": orjson.Fragment(said.data)}


async def enter(request: web.Request, entry: NewEntry, ident: str) -> web.Response:
    """Appends an entry. 202 {message_id} once it is on disk; with `wait`, 200 {message_id, results}
    when it has settled.

    `message_id` is the producer's own id where one was given, so that the same request has the same
    answer.
    """
    parts, wait_s = services_of(request), _wait_s(request)
    if wait_s is None:
        appended = await parts.requester.ingress.append(entry)
        return json_response({"message_id": ident or appended}, 202)
    try:
        report = await parts.requester.say(entry, wait_s)
    except NoAnswer as fault:
        raise TooLate(str(fault), message_id=ident or fault.ident) from fault
    answer = {"message_id": ident or report["id"], "results": report["results"]}
    if not report["results"]:
        answer["reason"] = _why_none(report)
    return json_response(answer)


def producer_id(request: web.Request) -> str:
    """The id under which the same message has no second effect; "" where none is given. Raises
    BadRequest."""
    given = [request.headers[name] for name in ID_HEADERS if name in request.headers]
    ident = given[0] if given else ""
    if "" in given:  # what a caller takes for safe to repeat would be done twice
        raise BadRequest(
            f"{' or '.join(ID_HEADERS)} is empty: give each message an id of its own, or leave the header out"
        )
    if not may_be_id(ident):
        raise BadRequest(
            f"{' and '.join(ID_HEADERS)} have at most {LONGEST_ID} characters, all of them printable"
        )
    return ident


async def _place(request: web.Request) -> tuple[Services, Served, str]:
    """(parts, pipeline, swarm) of a request. Raises NotFound."""
    parts, uid, swarm = services_of(request), request.match_info["uid"], request.match_info["swarm"]
    served = await parts.directory.find(uid)
    if swarm not in served.swarms:
        raise NotFound(
            f"pipeline {uid} has no swarm {swarm[:100]!r}; it has {', '.join(served.swarms) or 'none'}"
        )
    return parts, served, swarm


def _wait_s(request: web.Request) -> float | None:
    if not request.query_string:
        return None
    refuse_unknown(request, ("wait",))
    given, most = request.query.get("wait"), services_of(request).options.max_wait_s
    if given is None:
        return None
    try:
        wait_s = float(given)
    except ValueError:
        wait_s = 0.0
    if not 0 < wait_s <= most:
        raise BadRequest(
            f"`wait` is a number of seconds, above 0 and at most {most:g} (web.max_wait_s), not {given[:20]!r}"
        )
    return wait_s


def _cursor(request: web.Request) -> str:
    cursor = request.query.get("cursor", "")
    try:
        if cursor:
            cursor_of(cursor)
    except ValueError as error:
        raise BadRequest(
            f"`cursor`: {error}; an item's `cursor` and `next_cursor` are such"
        ) from error
    return cursor


def _why_none(report: dict[str, Any]) -> str:
    """Why a cascade that has settled has no results."""
    if report.get("errors"):
        return f"the message is in the dead letters: {report['errors'][0]}"
    if report.get("silent"):
        return (
            f"publishing is off (wf_publish_results) for {', '.join(report['silent'])}, which ran"
        )
    if report.get("public"):
        return f"it was said on the public swarm {report['public'][0]}: who listens there answers there, if at all"
    return "nothing in the pipeline answers to this"
