"""Pipelit's lists of facts, episodes, procedures, users and checkpoints, and their deletion."""

from typing import Any, get_type_hints

from aiohttp import hdrs, web

from memrelay.web.api.answers import json_response, refuse_unknown
from memrelay.web.api.operations import call_operation, read_object
from memrelay.web.api.pipeline_choice import find_pipeline
from memrelay.web.auth.access import requires
from memrelay.web.openapi.route_docs import IDEMPOTENCY_HEADERS, documented
from memrelay.web.pipelit import shapes
from memrelay.web.pipelit.errors import PIPELIT
from memrelay.web.pipelit.paths import (
    CHECKPOINTS,
    EPISODES,
    FACTS,
    PROCEDURES,
    USERS,
    Section,
    serve,
)
from memrelay.web.server.error_dialects import error_dialect
from memrelay.web.server.errors import Unprocessable

Json = dict[str, Any]
routes = web.RouteTableDef()
DEFAULT_LIMIT = 50
MAX_LIMIT = 1000
READ_ERRORS = {
    404: "The pipeline does not exist.",
    422: "A parameter is invalid.",
    503: "No worker serves the pipeline.",
    504: "No answer in time.",
}
PAGE_QUERY = {
    "limit": f"The maximum number of items, 1 to {MAX_LIMIT}. The default is {DEFAULT_LIMIT}.",
    "offset": "The number of items to skip.",
}
PAGE_SCHEMAS: dict[str, Json] = {
    "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT},
    "offset": {"type": "integer", "minimum": 0},
}
# The shape of an item and of a page.
LISTED: tuple[tuple[Section, type, type], ...] = (
    (FACTS, shapes.Fact, shapes.Facts),
    (EPISODES, shapes.Episode, shapes.Episodes),
    (PROCEDURES, shapes.Procedure, shapes.Procedures),
    (USERS, shapes.User, shapes.Users),
    (CHECKPOINTS, shapes.Checkpoint, shapes.Checkpoints),
)


def _declare_list(section: Section, item: type, page: type) -> None:
    """Declare the route that lists a section."""
    fields = tuple(get_type_hints(item))

    async def handle(request: web.Request) -> web.Response:
        refuse_unknown(request, (*section.filters, *PAGE_QUERY, "pipeline"))
        uid = await find_pipeline(request)
        given: Json = {name: request.query[name] for name in section.filters if name in request.query}
        given["limit"] = _parse_number(request, "limit", DEFAULT_LIMIT)
        given["offset"] = _parse_number(request, "offset", 0)
        found = await call_operation(request, f"{section.noun}.list", uid, given)
        items = [{name: one[name] for name in fields} for one in found["items"]]
        return json_response({"items": items, "total": found["total"]})

    handle.__name__ = handle.__qualname__ = f"list_{section.noun}"
    handle.__doc__ = f"List {section.noun}."
    declared = requires("read")(handle)
    declared = documented(
        {200: "A page."} | READ_ERRORS,
        query=section.filters | PAGE_QUERY,
        query_schemas=PAGE_SCHEMAS,
        schemas={200: page},
    )(error_dialect(PIPELIT)(declared))
    serve(routes, hdrs.METH_GET, section.paths)(declared)


def _declare_deletion(section: Section) -> None:
    """Declare the route that deletes items of a section by their ids."""

    async def handle(request: web.Request) -> web.Response:
        refuse_unknown(request, ("pipeline",))
        uid = await find_pipeline(request)
        body = await read_object(request)
        if body.get("ids") != []:
            await call_operation(request, f"{section.noun}.delete_many", uid, body)
        return web.Response(status=204)

    handle.__name__ = handle.__qualname__ = f"delete_{section.noun}"
    handle.__doc__ = f"Delete {section.noun} by their ids."
    declared = documented(
        {204: "They no longer exist."} | READ_ERRORS,
        headers=IDEMPOTENCY_HEADERS,
        body="{ids}",
        body_schema=shapes.Ids,
    )(error_dialect(PIPELIT)(requires("delete")(handle)))
    serve(routes, hdrs.METH_POST, _deletion_paths(section))(declared)


def _deletion_paths(section: Section) -> list[str]:
    return [f"{path}/batch-delete" for path in section.paths]


for _section, _item, _page in LISTED:
    _declare_list(_section, _item, _page)
    if _section is not CHECKPOINTS:
        _declare_deletion(_section)


@serve(routes, hdrs.METH_POST, _deletion_paths(CHECKPOINTS))
@error_dialect(PIPELIT)
@documented(
    {204: "They no longer exist."} | READ_ERRORS,
    headers=IDEMPOTENCY_HEADERS,
    body="{thread_ids?, checkpoint_ids?}",
    body_schema=shapes.CheckpointIds,
)
@requires("delete")
async def delete_checkpoints(request: web.Request) -> web.Response:
    """Delete whole threads and single checkpoints. Children of a deleted one get its parent."""
    refuse_unknown(request, ("pipeline",))
    uid = await find_pipeline(request)
    given = {name: value for name, value in (await read_object(request)).items() if value}
    if given:
        await call_operation(request, "checkpoints.delete", uid, given)
    return web.Response(status=204)


def _parse_number(request: web.Request, name: str, default: int) -> int:
    """Return an integer parameter. Raises Unprocessable; the operation checks its range."""
    given = request.query.get(name, str(default))
    digits = given.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 16):
        raise Unprocessable(f"{name} must be an integer, not {given[:20]!r}")
    return int(given)
