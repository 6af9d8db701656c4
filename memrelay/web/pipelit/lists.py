"""Pipelit's lists of facts, episodes, procedures, users and checkpoints, and their deletion."""

from typing import Any

from aiohttp import hdrs, web

from memrelay.web.api.answers import json_response, refuse_unknown
from memrelay.web.api.operations import call_operation, read_object
from memrelay.web.api.path_forms import serve
from memrelay.web.api.pipeline_choice import find_pipeline
from memrelay.web.auth.access import requires
from memrelay.web.openapi.route_docs import IDEMPOTENCY_HEADERS, documented
from memrelay.web.pipelit import shapes
from memrelay.web.pipelit.errors import PIPELIT
from memrelay.web.pipelit.pages import (
    LIMIT_SCHEMA,
    MAX_LIMIT,
    OFFSET_SCHEMA,
    list_page,
    parse_integer,
)
from memrelay.web.pipelit.paths import (
    CHECKPOINTS,
    EPISODES,
    FACTS,
    PROCEDURES,
    USERS,
    Section,
)
from memrelay.web.server.error_dialects import error_dialect
from memrelay.web.server.errors import Unprocessable

Json = dict[str, Any]
routes = web.RouteTableDef()
DEFAULT_LIMIT = 50
ERRORS = {
    404: "The pipeline does not exist.",
    422: "A parameter or the body is invalid.",
    503: "No worker serves the pipeline.",
    504: "No answer in time.",
}
PAGE_QUERY = {
    "limit": f"The maximum number of items, 1 to {MAX_LIMIT}. The default is {DEFAULT_LIMIT}.",
    "offset": "The number of items to skip.",
}
PAGES: tuple[tuple[Section, type], ...] = (
    (FACTS, shapes.Facts),
    (EPISODES, shapes.Episodes),
    (PROCEDURES, shapes.Procedures),
    (USERS, shapes.Users),
    (CHECKPOINTS, shapes.Checkpoints),
)
# The ids of a checkpoint's deletion, and their names in the operation.
CHECKPOINT_IDS = {"thread_ids": "threads", "checkpoint_ids": "ids"}


def _declare_list(section: Section, path: str, page: type) -> None:
    """Declare the route that lists a section at one of its paths."""

    async def handle(request: web.Request) -> web.Response:
        refuse_unknown(request, (*section.filters, *PAGE_QUERY, PIPELIT.pipeline_parameter))
        uid, query = await find_pipeline(request), request.query
        given: Json = {name: query[name] for name in section.filters if name in query}
        given["limit"] = parse_integer(request, "limit", DEFAULT_LIMIT)
        given["offset"] = parse_integer(request, "offset", 0)
        return json_response(await list_page(request, section, uid, given))

    documented(
        {200: "A page."} | ERRORS,
        query=section.filters | PAGE_QUERY,
        query_schemas={"limit": LIMIT_SCHEMA, "offset": OFFSET_SCHEMA},
        schemas={200: page},
    )(handle)
    handle.__name__, handle.__doc__ = f"list_{_name(path)}", f"List {section.noun} in pages."
    serve(routes, hdrs.METH_GET, path)(error_dialect(PIPELIT)(requires("read")(handle)))


def _declare_deletion(section: Section, path: str) -> None:
    """Declare the route that deletes items of a section by their ids."""
    is_checkpoints = section is CHECKPOINTS
    verb = "delete" if is_checkpoints else "delete_many"
    names = CHECKPOINT_IDS if is_checkpoints else {"ids": "ids"}

    async def handle(request: web.Request) -> web.Response:
        refuse_unknown(request, (PIPELIT.pipeline_parameter,))
        uid, body = await find_pipeline(request), await read_object(request, tuple(names))
        for name in body.keys() - names.keys():
            raise Unprocessable(f"unknown field {name[:50]!r}; known are {', '.join(names)}")
        # Pipelit's clients send null for no checkpoints.
        given = {names[name]: ids for name, ids in body.items() if ids is not None}
        await call_operation(request, f"{section.noun}.{verb}", uid, given)
        return web.Response(status=204)

    documented(
        {204: "They no longer exist."} | ERRORS,
        headers=IDEMPOTENCY_HEADERS,
        body="{thread_ids?, checkpoint_ids?}" if is_checkpoints else "{ids}",
        body_schema=shapes.CheckpointIds if is_checkpoints else shapes.Ids,
    )(handle)
    handle.__name__, handle.__doc__ = f"delete_{_name(path)}", f"Delete {section.noun} by ids."
    path = f"{path}/batch-delete"
    serve(routes, hdrs.METH_POST, path)(error_dialect(PIPELIT)(requires("delete")(handle)))


def _name(path: str) -> str:
    """Return the part of a path that names its handlers: `memories_facts`."""
    return path.removeprefix("/api/v1/").replace("/", "_").replace("-", "_")


for _section, _page in PAGES:
    for _path in _section.paths:
        _declare_list(_section, _path, _page)
        _declare_deletion(_section, _path)
