"""Sending messages to a swarm, and reading its log."""

import time
from typing import Any

import orjson
from aiohttp import hdrs, web
from multidict import istr

from memrelay.bus.codec import decode
from memrelay.bus.errors import NoAnswer
from memrelay.bus.keys import swarm_key
from memrelay.bus.streams.entry import LONGEST_ID, NewEntry, is_valid_id
from memrelay.bus.streams.log import (
    LogEntry,
    may_continue,
    parse_cursor,
    read_log,
    read_log_backward,
)
from memrelay.bus.streams.via import NO_VIA
from memrelay.memory.errors import StoreBroken, StoreBusy
from memrelay.pipelines.commands import hint_for, list_commands
from memrelay.web.api.answers import json_response, page_response, parse_limit, refuse_unknown
from memrelay.web.api.directory import Served
from memrelay.web.api.listener import follow_live
from memrelay.web.auth.access import get_caller, requires
from memrelay.web.auth.authorizer import make_via
from memrelay.web.auth.revocation import end_when_revoked
from memrelay.web.openapi.route_docs import (
    LOG_CURSOR_SCHEMA,
    MESSAGE_ID_HEADERS,
    MESSAGE_RESPONSES,
    MESSAGE_SCHEMAS,
    PAGE_QUERY,
    WAIT_QUERY,
    documented,
)
from memrelay.web.openapi.shapes import LogItem, Page
from memrelay.web.server.errors import BadRequest, GatewayTimeout, NotFound
from memrelay.web.server.request_body import read_body, to_envelope
from memrelay.web.services import get_services
from memrelay.web.webhooks.requests import APPENDED

routes = web.RouteTableDef()
ID_HEADERS = istr("webhook-id"), istr("Idempotency-Key")
MESSAGES_PATH = "/v1/pipelines/{uid}/swarms/{swarm}/messages"
PAGE_SIZE = 50
DEFAULT_SENDER = "User"
NO_AGENT = "no agent handled this message"


@routes.post(MESSAGES_PATH)
@documented(
    MESSAGE_RESPONSES,
    body="An envelope, a message, any JSON, or text.",
    query=WAIT_QUERY,
    headers=MESSAGE_ID_HEADERS,
    needs_body=False,
    schemas=MESSAGE_SCHEMAS,
)
@requires("publish")
async def send(request: web.Request) -> web.Response:
    """Send a message to a swarm. The sender defaults to `User`."""
    served, swarm = await _find_swarm(request)
    data = to_envelope(
        await read_body(request),
        sender=DEFAULT_SENDER,
        now_ms=time.time_ns() // 1_000_000,
        limits=get_services(request).options,
    )
    message_id = parse_message_id(request)
    via = make_via(get_caller(request), "rest")
    via = via if via.key else NO_VIA  # A key is worth a longer entry.
    entry = NewEntry(served.deployed.uid, data, swarm, producer_id=message_id, via=via)
    return await append_entry(request, entry, message_id)


@routes.get(MESSAGES_PATH)
@documented(
    {
        101: "With Upgrade: a WebSocket that follows the log, with `?after=` from a cursor.",
        200: "A page of the log.",
    },
    query=PAGE_QUERY | {"order": "asc (oldest first, the default) or desc."},
    query_schemas={"cursor": LOG_CURSOR_SCHEMA},
    schemas={200: Page[LogItem]},
)
@requires("read")
async def read(request: web.Request) -> web.StreamResponse:
    """Read a page of the log, or follow it live with an Upgrade to WebSocket.

    A page is {items, next_cursor, total}.
    """
    services = get_services(request)
    served, swarm = await _find_swarm(request)
    owner = served.bundle.swarm_owner(swarm)
    if request.headers.get(hdrs.UPGRADE, "").lower() == "websocket":
        return await follow_live(request, owner, swarm)
    refuse_unknown(request, ("cursor", "limit", "order"))
    cursor, limit = _parse_cursor(request), parse_limit(request, PAGE_SIZE)
    order = request.query.get("order", "asc")
    if order not in ("asc", "desc"):
        raise BadRequest("`order` must be asc (oldest first) or desc")
    if order == "asc":
        entries = await read_log(services.line, owner, swarm, after=cursor, limit=limit)
    else:
        entries = await read_log_backward(services.line, owner, swarm, before=cursor, limit=limit)
    total = await services.line.call("XLEN", swarm_key(owner, swarm))
    next_cursor = entries[-1].cursor if may_continue(entries, limit) else None
    return page_response([to_item(one) for one in entries], next_cursor, total)


def to_item(entry: LogEntry) -> dict[str, Any]:
    """Return a message of a log as JSON."""
    return {"cursor": entry.cursor, "mid": entry.mid, "message": orjson.Fragment(entry.data)}


async def append_entry(
    request: web.Request, entry: NewEntry, message_id: str, *, any_parameters: bool = False
) -> web.Response:
    """Append an input entry.

    Returns 202 {message_id} once the entry is durable. With `wait`, returns 200
    {message_id, results} once the cascade is complete. The response repeats the client's message
    id if there is one, so that a retry gets the same response. `any_parameters` allows others than
    `wait`: those of a webhook's sender are part of the URL that it was given.
    """
    services = get_services(request)
    wait_s = _parse_wait(request, any_parameters=any_parameters)
    if wait_s is None:
        appended = request[APPENDED] = await services.requester.ingress.append(entry)
        return json_response({"message_id": message_id or appended}, 202)
    try:
        async with end_when_revoked(request):
            report = await services.requester.say(entry, wait_s)
    except NoAnswer as fault:
        request[APPENDED] = fault.ident
        raise GatewayTimeout(str(fault), message_id=message_id or fault.ident) from fault
    request[APPENDED] = report["id"]
    body = {"message_id": message_id or report["id"], "results": report["results"]}
    if not report["results"]:
        body["reason"] = reason = _explain_no_results(report)
        is_chat = reason == NO_AGENT and entry.swarm
        hint = await _find_hint(request, entry) if is_chat else ""
        body |= {"hint": hint} if hint else {}
    return json_response(body)


def parse_message_id(request: web.Request) -> str:
    """Return the client's id for deduplication, or "". Raises BadRequest."""
    given = [request.headers[name] for name in ID_HEADERS if name in request.headers]
    message_id = given[0] if given else ""
    # The client relies on an id, so an empty one must not be ignored.
    if "" in given:
        raise BadRequest(
            f"{' or '.join(ID_HEADERS)} is empty; send a unique id per message, or omit the header"
        )
    if not is_valid_id(message_id):
        raise BadRequest(
            f"{' and '.join(ID_HEADERS)} must have at most {LONGEST_ID} printable characters"
        )
    return message_id


async def _find_swarm(request: web.Request) -> tuple[Served, str]:
    """Return the pipeline and the swarm in the path. Raises NotFound."""
    uid, swarm = request.match_info["uid"], request.match_info["swarm"]
    served = await get_services(request).directory.find(uid)
    if swarm not in served.swarms:
        known = ", ".join(served.swarms) or "none"
        raise NotFound(f"pipeline {uid} has no swarm {swarm[:100]!r}; it has {known}")
    return served, swarm


def _parse_wait(request: web.Request, *, any_parameters: bool) -> float | None:
    """Return the parameter `wait` in seconds, or None. Raises BadRequest."""
    if not request.query_string:
        return None
    if not any_parameters:
        refuse_unknown(request, ("wait",))
    given, max_s = request.query.get("wait"), get_services(request).options.max_wait_s
    if given is None:
        return None
    try:
        wait_s = float(given)
    except ValueError:
        wait_s = 0.0
    if not 0 < wait_s <= max_s:
        raise BadRequest(
            f"`wait` must be a number of seconds above 0 and at most {max_s:g} (web.max_wait_s), "
            f"not {given[:20]!r}"
        )
    return wait_s


def _parse_cursor(request: web.Request) -> str:
    cursor = request.query.get("cursor", "")
    try:
        if cursor:
            parse_cursor(cursor)
    except ValueError as error:
        raise BadRequest(
            f"`cursor`: {error}; use the `cursor` of an item or a `next_cursor`"
        ) from error
    return cursor


def _explain_no_results(report: dict[str, Any]) -> str:
    """Return why a complete cascade has no results."""
    if report.get("errors"):
        return f"the message became a dead letter: {report['errors'][0]}"
    if report.get("silent"):
        agents = ", ".join(report["silent"])
        return f"these agents ran but do not publish their results (wf_publish_results): {agents}"
    if report.get("parked"):
        return "parked"
    if report.get("public"):
        return (
            f"the message went to the public swarm {report['public'][0]}; only agents that listen "
            "there can answer"
        )
    return NO_AGENT


async def _find_hint(request: web.Request, entry: NewEntry) -> str:
    """Return how to correct a command that no agent handled; "" if there is no hint."""
    try:
        served = await get_services(request).directory.find(entry.uid)
    except (NotFound, StoreBusy, StoreBroken):
        return ""
    message = decode(entry.data, len(entry.data))
    return hint_for(message.text, dict(list_commands(served.bundle)))
