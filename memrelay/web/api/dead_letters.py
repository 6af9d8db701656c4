"""/v1/dead-letters: list, show, replay, and drop."""

from aiohttp import web

from memrelay.web.api.answers import (
    json_response,
    page_response,
    parse_limit,
    parse_numeric_cursor,
    refuse_unknown,
)
from memrelay.web.api.dead_letter_json import (
    NoDeadLetter,
    NotReplayable,
    find_dead_letter,
    make_replay_entry,
    to_detail,
    to_item,
)
from memrelay.web.api.messages import append_entry
from memrelay.web.auth.access import get_caller, requires
from memrelay.web.openapi.route_docs import (
    MESSAGE_RESPONSES,
    MESSAGE_SCHEMAS,
    NUMERIC_CURSOR_SCHEMA,
    PAGE_QUERY,
    WAIT_QUERY,
    documented,
)
from memrelay.web.openapi.shapes import DeadLetterDetail, DeadLetterItem, Page
from memrelay.web.server.errors import Conflict, NotFound
from memrelay.web.services import get_services

routes = web.RouteTableDef()
COLLECTION_PATH = "/v1/dead-letters"
ITEM_PATH = COLLECTION_PATH + "/{uid}/{ident}"
PAGE_SIZE = 50
MAX_POSITION = 2**63 - 1


@routes.get(COLLECTION_PATH)
@documented(
    {200: "A page of dead letters.", 404: "The pipeline does not exist."},
    query={
        "pipeline": "Only the dead letters of this pipeline.",
        "reason": "Only dead letters whose error has this first line, without its end beyond 300 "
        "characters.",
    }
    | PAGE_QUERY,
    query_schemas={"cursor": NUMERIC_CURSOR_SCHEMA},
    schemas={200: Page[DeadLetterItem]},
)
@requires("read")
async def list_all(request: web.Request) -> web.Response:
    """List dead letters, oldest first.

    Returns {items, next_cursor, total} for `pipeline`, or for all pipelines of the caller.
    """
    refuse_unknown(request, ("pipeline", "reason", "cursor", "limit"))
    letters, caller = get_services(request).catalog.dead_letters, get_caller(request)
    limit = parse_limit(request, PAGE_SIZE)
    after = parse_numeric_cursor(request.query.get("cursor") or "0", MAX_POSITION)
    counts = {uid: count for uid, count in (await letters.count()).items() if caller.sees(uid)}
    uid = request.query.get("pipeline", "")
    if uid and uid not in counts:
        await _check_active(request, uid)
    visible, reason = None if caller.sees_all else list(counts), request.query.get("reason")
    uids = [uid] if uid else visible
    listed = await letters.page(uids, reason=reason, after=after, limit=limit + 1)
    total = counts.get(uid, 0) if uid else sum(counts.values())
    if reason is not None:
        groups = await letters.groups(uids, reason=reason, limit=MAX_POSITION)
        total = sum(group.letters for group in groups)
    items = listed[:limit]
    next_cursor = str(items[-1].place) if len(listed) > limit else None
    return page_response([to_item(one) for one in items], next_cursor, total)


async def _check_active(request: web.Request, uid: str) -> None:
    """Raise NotFound unless the caller sees an active pipeline with this uid."""
    active = {one.uid for one in await get_services(request).catalog.active()}
    if uid not in active or not get_caller(request).sees(uid):
        raise NotFound(
            f"no pipeline {uid[:100]!r} is active or has dead letters; GET /v1/pipelines lists "
            "pipelines"
        )


@routes.get(ITEM_PATH)
@documented({200: "The dead letter with its message."}, schemas={200: DeadLetterDetail})
@requires("read")
async def show(request: web.Request) -> web.Response:
    """Show a dead letter with its message."""
    try:
        letter = await find_dead_letter(get_services(request).catalog, *_parse_path(request))
    except NoDeadLetter as fault:
        raise NotFound(str(fault)) from fault
    return json_response(to_detail(letter))


@routes.post(ITEM_PATH + "/replay")
@documented(
    MESSAGE_RESPONSES | {409: "The pipeline is not active."},
    query=WAIT_QUERY,
    schemas=MESSAGE_SCHEMAS,
)
@requires("admin")
async def replay(request: web.Request) -> web.Response:
    """Run a dead letter again.

    Returns 202 {message_id}, or 200 with the results if `wait` is given.
    """
    uid, ident = _parse_path(request)
    try:
        entry = await make_replay_entry(get_services(request).catalog, uid, ident)
    except NoDeadLetter as fault:
        raise NotFound(str(fault)) from fault
    except NotReplayable as fault:
        raise Conflict(str(fault)) from fault
    return await append_entry(request, entry, ident)


@routes.delete(ITEM_PATH)
@documented({204: "The dead letter was deleted."})
@requires("admin")
async def drop(request: web.Request) -> web.Response:
    """Delete a dead letter."""
    uid, ident = _parse_path(request)
    if not await get_services(request).catalog.dead_letters.remove(uid, [ident]):
        raise NotFound(str(NoDeadLetter(uid, ident)))
    return web.Response(status=204)


def _parse_path(request: web.Request) -> tuple[str, str]:
    return request.match_info["uid"], request.match_info["ident"]
