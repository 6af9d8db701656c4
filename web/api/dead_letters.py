"""/v1/dead-letters: listing, showing, replaying and dropping."""

from aiohttp import web

from memrelay.web.api.answers import json_response, limit_of, number_of, refuse_unknown
from memrelay.web.api.dead_letter_json import (
    NoLetter,
    NotReplayable,
    as_item,
    as_whole,
    letter_of,
    replay_of,
)
from memrelay.web.api.messages import enter
from memrelay.web.auth.access import caller_of, needs
from memrelay.web.openapi.route_docs import ENTERED, GIVEN, PAGED, WAITED, described
from memrelay.web.openapi.shapes import Letter, LetterShown, Page
from memrelay.web.server.errors import Conflict, NotFound
from memrelay.web.server.services import services_of

routes = web.RouteTableDef()
LETTERS = "/v1/dead-letters"
LETTER = LETTERS + "/{uid}/{ident}"
PAGE = 50
LARGEST = 2**63 - 1


@routes.get(LETTERS)
@described(
    {200: "a page of them", 404: "no such pipeline"},
    query={"pipeline": "those of one pipeline"} | PAGED,
    gives={200: Page[Letter]},
)
@needs("read")
async def every(request: web.Request) -> web.Response:
    """Those of `pipeline`, or all that the caller sees, in the order in which they first came:
    {items, next_cursor, total}."""
    refuse_unknown(request, ("pipeline", "cursor", "limit"))
    catalog, uid, caller = (
        services_of(request).catalog,
        request.query.get("pipeline", ""),
        caller_of(request),
    )
    limit, after = limit_of(request, PAGE), number_of(request.query.get("cursor") or "0", LARGEST)
    counts = {of: count for of, count in (await catalog.letters.count()).items() if caller.sees(of)}
    if (
        uid
        and uid not in counts
        and uid not in {one.uid for one in await catalog.active() if caller.sees(one.uid)}
    ):
        raise NotFound(
            f"no pipeline {uid[:100]!r} is in service or has dead letters; GET /v1/pipelines lists them"
        )
    seen = None if caller.sees_all else list(counts)
    found = await catalog.letters.page([uid] if uid else seen, after=after, limit=limit + 1)
    items = found[:limit]
    return json_response(
        {
            "items": [as_item(one) for one in items],
            "next_cursor": str(items[-1].place) if len(found) > limit else None,
            "total": counts.get(uid, 0) if uid else sum(counts.values()),
        }
    )


@routes.get(LETTER)
@described({200: "with what was said"}, gives={200: LetterShown})
@needs("read")
async def show(request: web.Request) -> web.Response:
    """One, with what was said."""
    try:
        return json_response(
            as_whole(await letter_of(services_of(request).catalog, *_named(request)))
        )
    except NoLetter as fault:
        raise NotFound(str(fault)) from fault


@routes.post(LETTER + "/replay")
@described(ENTERED | {409: "its pipeline is not in service"}, query=WAITED, gives=GIVEN)
@needs("admin")
async def replay(request: web.Request) -> web.Response:
    """Runs it again: 202 {message_id}, or with `wait` 200 and what came of it; 404, 409 where the
    pipeline is gone."""
    uid, ident = _named(request)
    try:
        entry = await replay_of(services_of(request).catalog, uid, ident)
    except NoLetter as fault:
        raise NotFound(str(fault)) from fault
    except NotReplayable as fault:
        raise Conflict(str(fault)) from fault
    return await enter(request, entry, ident)


@routes.delete(LETTER)
@described({204: "it is forgotten"})
@needs("admin")
async def drop(request: web.Request) -> web.Response:
    """Forgets it: 204, or 404."""
    uid, ident = _named(request)
    if not await services_of(request).catalog.letters.remove(uid, [ident]):
        raise NotFound(str(NoLetter(uid, ident)))
    return web.Response(status=204)


def _named(request: web.Request) -> tuple[str, str]:
    return request.match_info["uid"], request.match_info["ident"]
