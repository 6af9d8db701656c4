"""The page "Messages": the messages of a pipeline by text, agent, state, swarm and time."""

from typing import Any
from urllib.parse import urlencode

from aiohttp import web

from memrelay.memory.engine.timestamps import format_time
from memrelay.web.api.directory import Served
from memrelay.web.console.agents import list_agents
from memrelay.web.console.calls import TIMEOUT_S, attempt
from memrelay.web.console.excerpts import make_excerpts
from memrelay.web.console.frame import Page, PageRoutes
from memrelay.web.server.errors import BadRequest
from memrelay.web.trace.deliveries import has_endpoints
from memrelay.web.trace.search import STATES, SearchPage, search_messages
from memrelay.web.trace.search_route import CONDITIONS, parse_after, parse_query
from memrelay.web.trace.timeline import format_ms
from memrelay.web.trace.waiting import find_parked

STATE_TITLES = {"send_failed": "Send failed"}
PAGE = Page("Messages", "/pipelines/{uid}/messages", menu="pipeline", order=7, parent="Pipelines")
routes = PageRoutes(
    PAGE, query=CONDITIONS | {"cursor": "The place of the last message of the previous part."}
)
MAX_HITS = 50
# Names that the field for the agent suggests.
MAX_NAMES = 200


@routes.pipeline_page("messages.html")
async def messages(request: web.Request, served: Served) -> dict[str, Any]:
    """Show the messages of a pipeline that match, the newest first."""
    given = {name: request.query.get(name, "").strip() for name in CONDITIONS}
    page, fault, words = SearchPage([], 0, None, None), "", list[str]()
    try:
        query, after = parse_query(served, given), parse_after(request.query.get("cursor", ""))
    except BadRequest as problem:
        fault = f"{problem.detail}."
    else:
        words = query.words
        parked, missing = await attempt(
            request, served.deployed.uid, find_parked(request, served, TIMEOUT_S)
        )
        fault = f"{missing} Messages that wait for flow control are missing." if missing else ""
        page = await search_messages(
            request, served, query, after, MAX_HITS, parked=parked or frozenset()
        )
    filters = {name: value for name, value in given.items() if value}
    names = {name for one in list_agents(served.bundle) for name in (one.name, one.alias)}
    following = urlencode(filters | {"cursor": page.cursor or ""})
    return {
        "given": given | {name: _to_field(given[name]) for name in ("since", "until")},
        "is_filtered": bool(filters.keys() - {"zone"}),
        "hits": [
            hit._asdict()
            | {
                "at": format_time(hit.at_ms),
                "took": "" if hit.took_ms is None else format_ms(hit.took_ms),
                "excerpts": make_excerpts(hit.text, words),
            }
            for hit in page.hits
        ],
        "looked": page.looked,
        "oldest": format_time(page.oldest_ms) if page.oldest_ms else "",
        "conditions": urlencode(filters),
        "next": f"?{following}" if page.cursor else "",
        "delivers": given["state"] == "failed"
        and await has_endpoints(request, served.deployed.uid),
        "is_continued": bool(request.query.get("cursor")),
        "fault": fault,
        "states": {one: STATE_TITLES.get(one, one.capitalize()) for one in STATES},
        "swarms": served.swarms[:MAX_NAMES],
        "names": sorted(names)[:MAX_NAMES],
    }


def _to_field(moment: str) -> str:
    """Return a time in UTC as a field for local times accepts it; another text unchanged."""
    return moment.partition(".")[0].removesuffix("Z") if moment.endswith("Z") else moment
