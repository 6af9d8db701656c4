"""The pages: what runs, at `/`, and a room for each pipeline; with the parts of them that change,
which htmx fetches anew.

Nothing grows with the time that a page is open: each look replaces a part by one of bounded size,
and between two looks the
server knows nothing of the page.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from aiohttp import web

from memrelay.bus.streams.log import read_log_back
from memrelay.pipelines.commands import commands_of
from memrelay.web.api.directory import Served
from memrelay.web.api.status import EVICTS, NOT_PERSISTENT, limited
from memrelay.web.auth.access import caller_of, needs, open_to_all
from memrelay.web.console.figures import shown
from memrelay.web.console.frame import as_page, asset_response, show
from memrelay.web.console.graph import draw
from memrelay.web.console.hints import SwarmAddress, hints_for
from memrelay.web.console.stations import stations_of, swarms_heard
from memrelay.web.openapi.route_docs import ANY, HTML, described
from memrelay.web.server.cached_read import CachedRead
from memrelay.web.server.errors import NotFound
from memrelay.web.server.services import services_of

routes = web.RouteTableDef()
ON_A_PAGE = 20  # pipelines
MOST_SAID = 50  # messages of a log
ROOM = "/pipelines/{uid}"
GLANCE = web.AppKey(
    "glance", CachedRead[dict[str, Any]]
)  # the status, as everybody who looks at a page sees it


@routes.get("/")
@described(
    {200: "the page", 303: "to where one logs in"},
    kind=HTML,
    query={"page": "which page of the pipelines"},
)
@as_page
@needs("read")
async def overview(request: web.Request) -> web.Response:
    """What runs: a table and a picture of each pipeline. Where there is but one, also its chat and
    what to try."""
    values = await _house(request)
    pictures = [(served, draw(stations_of(served.bundle))) for served in values["served"]]
    only = await _room(request, pictures[0][0]) if values["total"] == len(pictures) == 1 else None
    return show("overview.html", **values, pictures=pictures, only=only)


@routes.get("/fragments/overview")
@described(
    {200: "a part of the page"},
    kind=HTML,
    query={"page": "as of the page", "seen": "what the page was made from"},
)
@needs("read")
async def overview_fragment(request: web.Request) -> web.Response:
    """The table alone."""
    return show("fragments/overview.html", **await _house(request))


@routes.get(ROOM)
@described(
    {200: "the page", 303: "to where one logs in"},
    kind=HTML,
    query={"swarm": "which of its swarms"},
)
@as_page
@needs("read")
async def room(request: web.Request) -> web.Response:
    """A pipeline: how it fares, a chat with it, its picture, and what to try."""
    served = await _served(request)
    stations = stations_of(served.bundle)
    return show(
        "room.html",
        **await _fares(request, served),
        **await _room(request, served),
        stations=stations,
        graph=draw(stations),
    )


@routes.get(ROOM + "/fares")
@described({200: "a part of the page"}, kind=HTML, query={"seen": "what the page was made from"})
@needs("read")
async def fares_fragment(request: web.Request) -> web.Response:
    """Its figures."""
    return show("fragments/fares.html", **await _fares(request, await _served(request)))


@routes.get(ROOM + "/said")
@described({200: "a part of the page"}, kind=HTML, query={"swarm": "which of its swarms"})
@needs("read")
async def said_fragment(request: web.Request) -> web.Response:
    """What was said last on `swarm`."""
    return show("fragments/said.html", **await _said(request, await _served(request)))


@routes.get("/static/{name}")
@described({200: "the file", 304: "it has not changed"}, kind=ANY)
@open_to_all
async def static(request: web.Request) -> web.Response:
    """A file that pages are made with."""
    return asset_response(request, request.match_info["name"])


async def _house(request: web.Request) -> dict[str, Any]:
    """What the overview shows: a page of the pipelines, by name."""
    status, everything = (
        await request.config_dict[GLANCE].look(),
        await services_of(request).directory.all(),
    )
    caller = caller_of(request)
    pipelines = limited(status, caller.sees)["pipelines"]
    number = _page_number(request, len(pipelines))
    rows = pipelines[(number - 1) * ON_A_PAGE : number * ON_A_PAGE]
    known = {served.deployed.uid: served for served in everything}
    return {
        "rows": rows,
        "served": [known[row["pipeline_uid"]] for row in rows if row["pipeline_uid"] in known],
        "known": known,
        "total": len(pipelines),
        "workers": len(status["workers"]),
        "number": number,
        "more": number * ON_A_PAGE < len(pipelines),
        "durability": _durability(status),
        "caller": caller,
        **_seen(request, [(row["pipeline_uid"], row["hash"]) for row in rows]),
    }


def _page_number(request: web.Request, total: int) -> int:
    """Which page of the pipelines; the nearest where there is none of that number."""
    given = request.query.get("page", "1")
    wanted = int(given) if given.isascii() and given.isdecimal() and len(given) < 6 else 1
    return max(1, min(wanted, -(-total // ON_A_PAGE)))


def _seen(request: web.Request, versions: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """A page knows by a digest which bundles it was made from; `is_old` says that there are others
    by now."""
    digest = sha256(repr(versions).encode()).hexdigest()[:16]
    return {"digest": digest, "is_old": request.query.get("seen", digest) != digest}


def _durability(status: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = status["durability"]
    return told | {"is_lacking": told["meaning"] in (NOT_PERSISTENT, EVICTS)}


async def _served(request: web.Request) -> Served:
    """The pipeline of the path. Raises NotFound."""
    uid = request.match_info["uid"]
    try:
        return await services_of(request).directory.find(uid)
    except NotFound as fault:
        raise NotFound(f"No pipeline {uid[:100]!r} is in service.") from fault


async def _fares(request: web.Request, served: Served) -> dict[str, Any]:
    """How one pipeline fares."""
    glance, uid = request.config_dict[GLANCE], served.deployed.uid
    status = await glance.look()
    if not (rows := _rows(status, uid)):
        status = await glance.look(anew=True)  # it has just been deployed
        rows = _rows(status, uid)
    if not rows:
        raise NotFound(f"No pipeline {uid!r} is in service.")
    return {
        "fares": rows[0],
        "workers": len(status["workers"]),
        "durability": _durability(status),
        "caller": caller_of(request),
        **_seen(request, [(uid, served.deployed.hash)]),
    }


def _rows(status: dict[str, Any], uid: str) -> list[dict[str, Any]]:
    return [row for row in status["pipelines"] if row["pipeline_uid"] == uid]


async def _room(request: web.Request, served: Served) -> dict[str, Any]:
    """A chat with a pipeline on one of its swarms, and what to try from elsewhere."""
    stations, options = stations_of(served.bundle), services_of(request).options
    values, commands = await _said(request, served), commands_of(served.bundle)
    place = SwarmAddress(
        f"{request.scheme}://{request.host}",
        options.bus_name,
        served.deployed.uid,
        values["swarm"],
        served.bundle.home_of(values["swarm"]),
    )
    voice = next(
        (
            one.name
            for one in stations
            if one.block == "chat_agent" and one.says_on == values["swarm"]
        ),
        "User",
    )
    return values | {
        "uid": served.deployed.uid,
        "name": served.deployed.name,
        "description": served.bundle.description,
        "deployed": served.deployed,
        "swarms": swarms_heard(stations),
        "commands": commands,
        "place": place,
        "voice": voice,
        "hints": hints_for(place, commands),
        "wait_s": min(30.0, options.max_wait_s),
    }


async def _said(request: web.Request, served: Served) -> dict[str, Any]:
    """The end of a swarm's log, newest first; of the swarm where people talk if none is named.
    Raises NotFound."""
    swarm = request.query.get("swarm") or next(iter(swarms_heard(stations_of(served.bundle))), "")
    if swarm and swarm not in served.swarms:
        raise NotFound(
            f"Pipeline {served.deployed.name} has no swarm {swarm[:100]!r}; it has {', '.join(served.swarms)}."
        )
    said = (
        await read_log_back(
            services_of(request).line, served.bundle.home_of(swarm), swarm, limit=MOST_SAID
        )
        if swarm
        else []
    )
    return {
        "swarm": swarm,
        "is_public": swarm in served.bundle.public,
        "said": shown(said),
        "most_said": MOST_SAID,
    }
