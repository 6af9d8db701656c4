"""Pipelit's lists of facts, episodes, procedures, users and checkpoints, and their deletion."""

from typing import Any

from aiohttp import hdrs, web

from memrelay.web.api.answers import json_response, refuse_unknown
from memrelay.web.api.operations import call_operation, read_object
from memrelay.web.models.pipelit import shapes
from memrelay.web.models.pipelit.errors import PIPELIT, PIPELIT_API
from memrelay.web.models.pipelit.sections import (
    CHECKPOINTS,
    LIMIT_SCHEMA,
    MAX_LIMIT,
    OFFSET_SCHEMA,
    SECTIONS,
    Section,
    list_page,
    parse_integer,
)
from memrelay.web.models.routes import find_pipeline
from memrelay.web.server.errors import Unprocessable

Json = dict[str, Any]
routes = web.RouteTableDef()
DEFAULT_LIMIT = 50
PAGE_QUERY = {
    "limit": f"The maximum number of items, 1 to {MAX_LIMIT}. The default is {DEFAULT_LIMIT}.",
    "offset": "The number of items to skip.",
}
# The ids of a checkpoint's deletion, and their names in the operation.
CHECKPOINT_IDS = {"thread_ids": "threads", "checkpoint_ids": "ids"}


def _declare_list(section: Section, path: str) -> None:
    """Declare the route that lists a section at one of its paths."""

    async def handle(request: web.Request) -> web.Response:
        refuse_unknown(request, (*section.filters, *PAGE_QUERY, PIPELIT.pipeline_parameter))
        uid, query = await find_pipeline(request), request.query
        input: Json = {name: query[name] for name in section.filters if name in query}
        input["limit"] = parse_integer(request, "limit", DEFAULT_LIMIT)
        input["offset"] = parse_integer(request, "offset", 0)
        return json_response(await list_page(request, section, uid, input))

    handle.__name__, handle.__doc__ = f"list_{_name(path)}", f"List {section.noun} in pages."
    PIPELIT_API.serve(
        routes,
        hdrs.METH_GET,
        path,
        f"{section.noun}.list",
        {200: "A page."},
        query=section.filters | PAGE_QUERY,
        query_schemas={"limit": LIMIT_SCHEMA, "offset": OFFSET_SCHEMA},
        schemas={200: section.page},
    )(handle)


def _declare_deletion(section: Section, path: str) -> None:
    """Declare the route that deletes items of a section by their ids."""
    is_checkpoints = section is CHECKPOINTS
    operation = f"{section.noun}.{'delete' if is_checkpoints else 'delete_many'}"
    names = CHECKPOINT_IDS if is_checkpoints else {"ids": "ids"}

    async def handle(request: web.Request) -> web.Response:
        refuse_unknown(request, (PIPELIT.pipeline_parameter,))
        uid, body = await find_pipeline(request), await read_object(request, tuple(names))
        for name in body.keys() - names.keys():
            raise Unprocessable(f"unknown field {name[:50]!r}; known are {', '.join(names)}")
        # Pipelit's clients send null for no checkpoints.
        input = {names[name]: ids for name, ids in body.items() if ids is not None}
        await call_operation(request, operation, uid, input)
        return web.Response(status=204)

    handle.__name__, handle.__doc__ = f"delete_{_name(path)}", f"Delete {section.noun} by ids."
    PIPELIT_API.serve(
        routes,
        hdrs.METH_POST,
        f"{path}/batch-delete",
        operation,
        {204: "They no longer exist."},
        body="{thread_ids?, checkpoint_ids?}" if is_checkpoints else "{ids}",
        body_schema=shapes.CheckpointIds if is_checkpoints else shapes.Ids,
    )(handle)


def _name(path: str) -> str:
    """Return the part of a path that names its handlers: `memories_facts`."""
    return path.removeprefix("/api/v1/").replace("/", "_").replace("-", "_")


for _section in SECTIONS:
    for _path in _section.paths:
        _declare_list(_section, _path)
        _declare_deletion(_section, _path)
