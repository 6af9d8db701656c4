"""GET /v1/pipelines/{uid}/messages: search the messages of a pipeline."""

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from memrelay.memory.engine.time_zones import find_zone
from memrelay.memory.engine.timestamps import LAST_MS, format_time, parse_ms
from memrelay.memory.errors import Refused
from memrelay.web.api.answers import invalid_cursor, json_response, parse_limit, refuse_unknown
from memrelay.web.api.directory import Served
from memrelay.web.auth.access import requires
from memrelay.web.openapi.route_docs import PAGE_QUERY, documented
from memrelay.web.openapi.shapes import FoundMessages
from memrelay.web.server.errors import BadRequest
from memrelay.web.services import get_services
from memrelay.web.trace.search import (
    MAX_QUERY,
    MAX_SHOWN,
    STATES,
    Hit,
    Place,
    Query,
    parse_place,
    search_messages,
)
from memrelay.web.trace.waiting import find_parked

routes = web.RouteTableDef()
SEARCH_PATH = "/v1/pipelines/{uid}/messages"
PAGE_SIZE = 50
CONDITIONS = {
    "text": "Words that all occur in the message, without regard to case.",
    "agent": "The alias or name of the agent that published it or failed, or another sender.",
    "state": "processed, waiting, parked (because of `wf_flow`), failed, or send_failed: the "
    "answer to a request of `http_request` or `webhook_send` that failed.",
    "swarm": "Only messages on this swarm.",
    "since": "Only messages from then on: RFC 3339 or Unix ms.",
    "until": "Only messages before then.",
    "took_ms": "Only messages that were published at least so many ms after the arrival of the "
    "first one.",
    "zone": "The time zone of times without an offset, such as Europe/Berlin; UTC by default.",
}


def parse_query(served: Served, given: Mapping[str, str]) -> Query:
    """Return the conditions of a search. Raises BadRequest."""
    for name in ("text", "agent", "swarm"):
        if len(given.get(name, "")) > MAX_QUERY:
            raise BadRequest(f"`{name}` has more than {MAX_QUERY} characters; shorten it")
    state, swarm = given.get("state", ""), given.get("swarm", "")
    if state and state not in STATES:
        raise BadRequest(f"`state` must be one of {', '.join(STATES)}, not {state[:20]!r}")
    if swarm and swarm not in served.swarms:
        known = ", ".join(served.swarms) or "none"
        raise BadRequest(f"`swarm` must be one of {known}, not {swarm[:100]!r}")
    text, agent = given.get("text", "").strip(), given.get("agent", "").strip()
    since_ms, until_ms = _parse_time(given, "since", 0), _parse_time(given, "until", LAST_MS)
    took = given.get("took_ms", "").strip()
    if took and not (took.isascii() and took.isdecimal() and len(took) < 11):
        raise BadRequest(f"`took_ms` must be a whole number of milliseconds, not {took[:20]!r}")
    return Query(text, agent, state, swarm, since_ms, until_ms, int(took or 0))


def _parse_time(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name, "").strip()
    if not text:
        return default
    try:
        moment = parse_ms(text, find_zone(given.get("zone", "")))
    except Refused as error:
        raise BadRequest(f"`zone`: {error}") from error
    if moment is None or not 0 <= moment <= LAST_MS:
        raise BadRequest(f"`{name}` must be a time like 2026-11-28T09:00:00Z, not {text[:40]!r}")
    return moment


def parse_after(cursor: str) -> Place | None:
    """Return the place after which a page begins, None for the first page. Raises BadRequest."""
    place = parse_place(cursor) if cursor else None
    if cursor and place is None:
        raise invalid_cursor()
    return place


def to_json(hit: Hit) -> dict[str, Any]:
    """Return a message that was found as JSON."""
    return {
        "at": format_time(hit.at_ms),
        "state": hit.state,
        "entry": hit.entry,
        "mid": hit.mid,
        "swarm": hit.swarm,
        "from": hit.sender,
        "agent": hit.agent,
        "text": hit.text[:MAX_SHOWN],
        "characters": len(hit.text),
        "reason": hit.reason,
        "dead_letter": hit.letter or None,
        "took_ms": hit.took_ms,
    }


@routes.get(SEARCH_PATH)
@documented(
    {
        200: "The messages that were found, the newest first.",
        404: "The pipeline does not exist.",
        503: "The bus does not answer, or the pipeline is overloaded.",
        504: "No worker answered in time.",
    },
    ident="messages.search",
    query=CONDITIONS | PAGE_QUERY,
    schemas={200: FoundMessages},
)
@requires("read")
async def search(request: web.Request) -> web.Response:
    """Search the messages of a pipeline by text, agent, state, swarm and time.

    A request reads at most 2,000 messages. If `next_cursor` is set, the rest continues there, also
    if nothing was found yet.
    """
    refuse_unknown(request, (*CONDITIONS, *PAGE_QUERY))
    served = await get_services(request).directory.find(request.match_info["uid"])
    query, limit = parse_query(served, request.query), parse_limit(request, PAGE_SIZE)
    after = parse_after(request.query.get("cursor", ""))
    parked = await find_parked(request, served)
    page = await search_messages(request, served, query, after, limit, parked=parked)
    return json_response(
        {
            "items": [to_json(hit) for hit in page.hits],
            "next_cursor": page.cursor,
            "looked": page.looked,
            "oldest_at": None if page.oldest_ms is None else format_time(page.oldest_ms),
        }
    )
