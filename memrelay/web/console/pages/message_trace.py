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
from memrelay.web.console.calls import TIMEOUT_S, Call, ask_refusable, attempt
from memrelay.web.console.frame import Page, PageRoutes, answer_refresh, find_served, render
from memrelay.web.console.receipt_reads import read_remembered
from memrelay.web.console.search_hits import record_url
from memrelay.web.services import get_services
from memrelay.web.trace.dead_letter_rows import read_rows
from memrelay.web.trace.deliveries import find_deliveries, has_endpoints
from memrelay.web.trace.hearers import find_hearers, find_webhook
from memrelay.web.trace.messages import Published, read_message, read_messages
from memrelay.web.trace.records import find_records
from memrelay.web.trace.timeline import (
    CALL,
    RUN,
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
# Characters of a message, and of the whole texts of all messages.
MAX_CHARACTERS, MAX_WHOLE = 300, 20_000
# Deeper messages are drawn at this level.
MAX_DEPTH = 24
# Records that a message links to; the table lists all.
MAX_LINKS = 5
# A delivery that ends after so many times the rest of the message is cut in the drawing.
CUT_AFTER = 10
# Kept inputs of the same millisecond.
MAX_INPUTS = 100
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
    found = [letter] if letter else []
    rows = await read_rows(services.catalog.dead_letters, found)
    delivers = await has_endpoints(request, uid)
    guids = [record["guid"] for record in records] if delivers else []
    sources = Sources(timings, await _read_deliveries(request, uid, guids))
    timeline = make_timeline(served.bundle, entry, cascade.messages, sources)
    nodes = make_nodes(cascade.messages, records, timeline, arrived_ms)
    is_empty = len(cascade.messages) < 2 and not (records or letter or parked or fault)
    unheard = await _read_unheard(request, served, entry, cascade.messages) if is_empty else {}
    return {
        "uid": uid,
        "entry": entry,
        "is_empty": is_empty,
        "link": partial(record_url, uid),
        "nodes": nodes,
        **unheard,
        "messages": len(cascade.messages),
        "max_nodes": MAX_NODES,
        "records": records[:MAX_RECORDS],
        "record_count": len(records),
        "arrived_at": format_time(arrived_ms),
        "took": format_ms(timeline.total_ms),
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


async def _read_unheard(
    request: web.Request, served: Served, entry: str, messages: Sequence[Published]
) -> dict[str, Any]:
    """Return who heard a message that led to nothing, and what is known of it."""
    webhook: dict[str, Any] = {}
    text, caller, uid = "", get_caller(request), served.deployed.uid
    if not messages:
        webhook, _ = await attempt(request, uid, find_webhook(request, served, entry))
        webhook = webhook or {}
    if not messages and "admin" in caller.scopes:
        at_ms = int(entry.partition("-")[0])
        given = {"since": str(at_ms), "until": str(at_ms + 1), "limit": MAX_INPUTS}
        answer = await ask_refusable(request, uid, Call("inputs.list", given))
        kept = answer.output["items"] if answer.output else []
        text = next(
            (read_message(one["data"].encode())[1] for one in kept if one["id"] == entry), ""
        )
    hearers = find_hearers(served, messages, webhook.get("agent", ""))
    return {"webhook": webhook, "kept_text": text, "hearers": hearers}


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

    `whole` is its text if `text` is the beginning, "" if the page has no room for it. `at` is
    when it was published, after the arrival. `ran` is how long its block ran in the timeline,
    "" if that is not known.
    """

    message: Published
    text: str
    whole: str
    hidden: int
    at: str
    ran: str
    records: list[dict[str, Any]]
    answers: list["Node"]


def make_nodes(
    messages: Sequence[Published],
    records: Sequence[dict[str, Any]],
    timeline: Timeline,
    arrived_ms: int,
) -> list[Node]:
    """Return the trees of the messages that answer no other one."""
    nodes, roots, depths = dict[str, Node](), list[Node](), dict[str, int]()
    runs, room = _list_runs(timeline), MAX_WHOLE
    written = _group_by_agent(records)
    for message in messages[:MAX_NODES]:
        whole = message.text if MAX_CHARACTERS < len(message.text) <= room else ""
        room -= len(whole)
        node = Node(
            message,
            message.text[:MAX_CHARACTERS],
            whole,
            message.characters - len(message.text[:MAX_CHARACTERS]),
            format_ms(max(0, message.published_at_ms - arrived_ms)),
            runs[message.sender].pop(0) if message.agent and runs[message.sender] else "",
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


def _list_runs(timeline: Timeline) -> dict[str, list[str]]:
    """Return the durations of blocks by the name of the agent, in order."""
    runs = defaultdict[str, list[str]](list)
    for step in timeline.steps:
        if step.kind in (RUN, CALL) and step.agent and step.block:
            runs[step.agent].append(format_ms(step.took_ms))
    return runs


def _group_by_agent(records: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found = defaultdict[str, list[dict[str, Any]]](list)
    for record in records:
        if len(found[record["agent"]]) < MAX_LINKS:
            found[record["agent"]].append(record)
    return found
