"""The page of one message: the tree of its messages, its records, and its dead letter."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from aiohttp import web

from memrelay.bus.keys import input_key
from memrelay.memory.engine.timestamps import format_time
from memrelay.web.api.directory import Served
from memrelay.web.auth.access import get_caller
from memrelay.web.console.calls import TIMEOUT_S, attempt
from memrelay.web.console.frame import Page, PageRoutes, answer_refresh, find_served, render
from memrelay.web.console.receipt_reads import read_remembered
from memrelay.web.console.search_hits import record_url
from memrelay.web.services import get_services
from memrelay.web.trace.dead_letter_rows import read_rows
from memrelay.web.trace.deliveries import find_deliveries, has_endpoints
from memrelay.web.trace.messages import Published, read_messages
from memrelay.web.trace.records import find_records
from memrelay.web.trace.timeline import (
    Sources,
    Step,
    Timeline,
    format_ms,
    make_timeline,
    read_timings,
)
from memrelay.web.trace.trace import parse_entry
from memrelay.web.trace.waiting import find_waiting

PAGE = Page("Message trace", "/pipelines/{uid}/messages/{entry}", parent="Messages")
routes = PageRoutes(PAGE)
MAX_NODES = 150
MAX_RECORDS = 100
# Characters of a message, and of a record.
MAX_CHARACTERS = 300
# Deeper messages are drawn at this level.
MAX_DEPTH = 24
# Records that a message links to; the table lists all.
MAX_LINKS = 5
# A delivery that ends after so many times the rest of the message is cut in the drawing.
CUT_AFTER = 10
# Starts below it are shown as 0, ms.
LEAST_SHOWN_MS = 0.05
# The tries of deliveries are read again after so many seconds.
TRIES_S = 5


@routes.pipeline_page("message_trace.html")
async def message_trace(request: web.Request, served: Served) -> dict[str, Any]:
    """Show one message with everything that it led to."""
    return await _trace_values(request, served)


@routes.fragment(PAGE.path + "/tree")
async def tree_fragment(request: web.Request) -> web.Response:
    """Return the messages, records and dead letter of a message."""
    served = await find_served(request)

    async def make() -> web.Response:
        return render(request, "fragments/trace.html", **await _trace_values(request, served))

    # The state of a pipeline does not change when a replay fails again.
    version = await get_services(request).catalog.dead_letters.read_version()
    tries = int(time.time() // TRIES_S) if await has_endpoints(request, served.deployed.uid) else 0
    return await answer_refresh(request, served, make, (version, tries))


async def _trace_values(request: web.Request, served: Served) -> dict[str, Any]:
    """Return the template values of a trace. Raises BadRequest."""
    entry, services = parse_entry(request.match_info["entry"]), get_services(request)
    uid = served.deployed.uid
    cascade = await read_messages(services.line, served, entry)
    letter = await services.catalog.dead_letters.find_of_entry(uid, entry)
    searched = find_records(request, served, entry, cascade.messages, TIMEOUT_S)
    (written, fault), (parked, _), (timings, _) = await asyncio.gather(
        attempt(request, uid, searched),
        attempt(request, uid, find_waiting(request, served, entry, TIMEOUT_S)),
        attempt(request, uid, read_timings(request, uid, entry, TIMEOUT_S)),
    )
    records = written.records if written else []
    arrived_ms = int(entry.partition("-")[0])
    published = [one.published_at_ms for one in cascade.messages]
    found = [letter] if letter else []
    rows = await read_rows(services.catalog.dead_letters, found)
    delivers = await has_endpoints(request, uid)
    guids = [record["guid"] for record in records] if delivers else []
    sources = Sources(timings, await _read_deliveries(request, uid, guids))
    timeline = make_timeline(served.bundle, entry, cascade.messages, sources)
    return {
        "uid": uid,
        "entry": entry,
        "link": partial(record_url, uid),
        "nodes": make_nodes(cascade.messages, records),
        "messages": len(cascade.messages),
        "max_nodes": MAX_NODES,
        "records": records[:MAX_RECORDS],
        "record_count": len(records),
        "arrived_at": format_time(arrived_ms),
        "waited_ms": max(0, published[0] - arrived_ms) if published else None,
        "took_ms": max(0, max(published) - arrived_ms) if published else None,
        "delivers": delivers,
        "timeline": timeline,
        "bars": make_bars(timeline),
        "deliveries_url": f"/pipelines/{uid}/deliveries",
        "remembered": await read_remembered(request, uid, entry),
        "is_waiting": bool(await services.line.call("XRANGE", input_key(uid), entry, entry)),
        "parked": parked or [],
        "letter": rows[0] if rows else None,
        "is_complete": cascade.is_complete and (written is None or written.is_complete),
        "fault": fault,
        "caller": get_caller(request),
        "wait_s": services.options.max_wait_s,
    }


async def _read_deliveries(
    request: web.Request, uid: str, guids: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the deliveries of records; none while the pipeline does not answer."""
    looked_up = find_deliveries(request, uid, guids, TIMEOUT_S)
    deliveries, _ = await attempt(request, uid, looked_up)
    return deliveries or []


class Bar(NamedTuple):
    """A step of the timeline as it is drawn. `x` and `width` are shares of the width, in percent.

    `is_beyond` is whether it begins after the end of the drawing.
    """

    step: Step
    x: float
    width: float
    start: str
    took: str
    is_beyond: bool


def make_bars(timeline: Timeline) -> list[Bar]:
    """Return the bars of a timeline. Deliveries that end much later than all else are cut."""
    last_ms = max((step.end_ms for step in timeline.steps), default=0.0)
    whole_ms = last_ms if last_ms <= CUT_AFTER * timeline.total_ms else timeline.total_ms
    whole_ms = max(whole_ms, 0.001)
    return [
        Bar(
            step,
            round(100 * min(1.0, step.start_ms / whole_ms), 2),
            round(100 * min(step.took_ms, max(0.0, whole_ms - step.start_ms)) / whole_ms, 2),
            format_ms(step.start_ms) if step.start_ms >= LEAST_SHOWN_MS else "0 ms",
            format_ms(step.took_ms),
            step.start_ms > whole_ms,
        )
        for step in timeline.steps
    ]


class Node(NamedTuple):
    """A message and its answers.

    `delay_ms` is the time after the first message, and `took_ms` that after the message which it
    answers: its step with the wait for it. Both are those of the log.
    """

    message: Published
    text: str
    hidden: int
    delay_ms: int
    took_ms: int
    records: list[dict[str, Any]]
    answers: list["Node"]


def make_nodes(messages: Sequence[Published], records: Sequence[dict[str, Any]]) -> list[Node]:
    """Return the trees of the messages that answer no other one."""
    nodes, roots, depths = dict[str, Node](), list[Node](), dict[str, int]()
    times = {message.mid: message.published_at_ms for message in messages}
    written = _group_by_agent(records)
    for message in messages[:MAX_NODES]:
        node = Node(
            message,
            message.text[:MAX_CHARACTERS],
            message.characters - len(message.text[:MAX_CHARACTERS]),
            max(0, message.published_at_ms - messages[0].published_at_ms),
            max(0, message.published_at_ms - times.get(message.parent, message.published_at_ms)),
            # The first message of an agent links to its records.
            written.pop(message.agent, []) if message.agent else [],
            [],
        )
        parent = message.parent
        while parent in nodes and depths[parent] >= MAX_DEPTH:
            parent = nodes[parent].message.parent
        depths[message.mid] = depths.get(parent, 0) + 1
        nodes[message.mid] = node
        (nodes[parent].answers if parent in nodes else roots).append(node)
    return roots


def _group_by_agent(records: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found = defaultdict[str, list[dict[str, Any]]](list)
    for record in records:
        if len(found[record["agent"]]) < MAX_LINKS:
            found[record["agent"]].append(record)
    return found
