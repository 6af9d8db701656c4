"""Puts together the trace of a message: its messages, its records, and its dead letter."""

import asyncio
from typing import Any, NamedTuple

from aiohttp import web

from memrelay.bus.streams.log import parse_cursor
from memrelay.memory.control.dead_letters import Listed
from memrelay.memory.engine.timestamps import format_time
from memrelay.web.api.answers import json_response, refuse_unknown
from memrelay.web.api.dead_letter_json import to_item
from memrelay.web.api.directory import Served
from memrelay.web.auth.access import requires
from memrelay.web.openapi.route_docs import documented
from memrelay.web.openapi.shapes import MessageTrace
from memrelay.web.server.errors import BadRequest
from memrelay.web.services import get_services
from memrelay.web.trace.messages import CascadeMessages, Published, read_messages
from memrelay.web.trace.records import Written, find_records
from memrelay.web.trace.timeline import Sources, Timeline, make_timeline, read_timings
from memrelay.web.trace.waiting import find_waiting

routes = web.RouteTableDef()
TRACE_PATH = "/v1/pipelines/{uid}/messages/{entry}"


class Trace(NamedTuple):
    """The results of one message. `dead_letter` is the first failed step, None for none. `waiting`
    are the messages that wait because of `wf_flow`.
    """

    entry: str
    cascade: CascadeMessages
    written: Written
    dead_letter: Listed | None
    waiting: list[dict[str, Any]]
    timeline: Timeline

    @property
    def is_complete(self) -> bool:
        """Return whether no message and no record may be missing."""
        return self.cascade.is_complete and self.written.is_complete

    def as_json(self) -> dict[str, Any]:
        """Return the trace as the API shows it."""
        return {
            "entry": self.entry,
            "said": [to_json(one) for one in self.cascade.messages],
            "records": self.written.records,
            "dead_letter": None if self.dead_letter is None else to_item(self.dead_letter),
            "waiting": self.waiting,
            "timeline": [step.as_json() for step in self.timeline.steps],
            "took_ms": round(self.timeline.total_ms, 3),
            "slowest": self.timeline.summary,
            "complete": self.is_complete,
        }


def parse_entry(text: str) -> str:
    """Return the id of an entry unchanged. Raises BadRequest."""
    try:
        parse_cursor(text)
    except ValueError as error:
        raise BadRequest(
            f"{text[:50]!r} is not the id of a message: send the part of a `mid` before its first "
            "dot, such as 1780000000000-0"
        ) from error
    return text


async def read_trace(request: web.Request, served: Served, entry: str) -> Trace:
    """Return the trace of a message.

    Raises Problem if the pipeline's owner does not answer, BusUnavailable, BusRefused and
    StoreBusy.
    """
    services, uid = get_services(request), served.deployed.uid
    cascade = await read_messages(services.line, served, entry)
    dead_letter = await services.catalog.dead_letters.find_of_entry(uid, entry)
    written, waiting, timings = await asyncio.gather(
        find_records(request, served, entry, cascade.messages),
        find_waiting(request, served, entry),
        read_timings(request, uid, entry),
    )
    timeline = make_timeline(served.bundle, entry, cascade.messages, Sources(timings))
    return Trace(entry, cascade, written, dead_letter, waiting, timeline)


def to_json(message: Published) -> dict[str, Any]:
    """Return a message of a trace as JSON."""
    return {
        "mid": message.mid,
        "parent": message.parent or None,
        "hop": message.hop,
        "swarm": message.swarm,
        "from": message.sender,
        "agent": message.agent,
        "block": message.block,
        "text": message.text,
        "characters": message.characters,
        "published_at": format_time(message.published_at_ms),
    }


@routes.get(TRACE_PATH)
@documented(
    {
        200: "The messages, waiting messages, records and dead letter that the message led to.",
        404: "The pipeline does not exist.",
        503: "The bus does not answer, or the pipeline is overloaded.",
        504: "No worker answered in time.",
    },
    ident="routes.show",
    schemas={200: MessageTrace},
)
@requires("read")
async def show(request: web.Request) -> web.Response:
    """Trace one message: all messages, records and the dead letter that it led to."""
    refuse_unknown(request, ())
    served = await get_services(request).directory.find(request.match_info["uid"])
    trace = await read_trace(request, served, parse_entry(request.match_info["entry"]))
    return json_response(trace.as_json())
