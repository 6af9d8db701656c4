"""The routes of the MCP server: streamable HTTP, for every pipeline of a key or for one."""

import asyncio
from collections.abc import Sequence
from typing import Any

from aiohttp import web

from memrelay.memory.control.keys import SCOPES
from memrelay.pipelines.json_text import too_many_keys
from memrelay.web.auth.access import get_caller, requires
from memrelay.web.mcp.session import SESSION, Session
from memrelay.web.mcp.toolsets import FILES, GRAPH, MEMORY
from memrelay.web.mcp.transports.bridge import serve_asgi
from memrelay.web.mcp.transports.http_target import HttpTarget
from memrelay.web.mcp.transports.loading import APPLICATIONS
from memrelay.web.mcp.updates.change_reader import ChangeReaders
from memrelay.web.openapi.route_docs import ANY, documented
from memrelay.web.server.errors import Unprocessable
from memrelay.web.server.request_body import read_json_body
from memrelay.web.server.services import get_services

routes = web.RouteTableDef()
READERS = web.AppKey("readers", ChangeReaders)
# How long the streams may take to tell their clients that the server stops.
GRACE_S = 0.1
PATH = "/mcp"
DOCUMENTATION = documented(
    {
        200: "The JSON-RPC response, or a stream of events.",
        202: "The notification was accepted.",
        400: "The request is malformed, or it is refused in a JSON-RPC response.",
        404: "The pipeline or the JSON-RPC method does not exist.",
        405: "Only POST is offered: the server keeps no sessions.",
        406: "Accept must allow application/json and text/event-stream.",
        422: "The body has too many keys.",
        501: "The extra `mcp` is not installed.",
    },
    body="A JSON-RPC message of the Model Context Protocol.",
    media_type=ANY,
    schemas={400: Any, 404: Any, 406: Any},
)


@routes.post(PATH)
@DOCUMENTATION
@requires(*SCOPES)
async def serve_all(request: web.Request) -> web.StreamResponse:
    """Serve MCP with the tools of every pipeline that the key may access."""

    async def list_uids() -> Sequence[str]:
        caller = get_caller(request)
        pipelines = await get_services(request).directory.list_pipelines()
        return [one.deployed.uid for one in pipelines if caller.sees(one.deployed.uid)]

    session = Session(
        MEMORY,
        lambda uid: HttpTarget(request, uid),
        list_uids=list_uids,
        readers=request.config_dict[READERS],
        transport=request.transport,
    )
    return await serve_session(request, session)


@routes.post(f"{PATH}/{{uid}}")
@DOCUMENTATION
@requires(*SCOPES)
async def serve_pipeline(request: web.Request) -> web.StreamResponse:
    """Serve MCP with the memory tools of one pipeline."""
    return await _serve_toolset(request, MEMORY)


@routes.post(f"{PATH}/{{uid}}/graph")
@DOCUMENTATION
@requires(*SCOPES)
async def serve_graph(request: web.Request) -> web.StreamResponse:
    """Serve MCP with the tools of the official memory server on one pipeline."""
    return await _serve_toolset(request, GRAPH)


@routes.post(f"{PATH}/{{uid}}/files")
@DOCUMENTATION
@requires(*SCOPES)
async def serve_files(request: web.Request) -> web.StreamResponse:
    """Serve MCP with Anthropic's memory tool on one pipeline."""
    return await _serve_toolset(request, FILES)


async def _serve_toolset(request: web.Request, toolset: str) -> web.StreamResponse:
    uid = request.match_info["uid"]
    await get_services(request).directory.find(uid)
    session = Session(
        toolset,
        lambda uid: HttpTarget(request, uid),
        uid=uid,
        readers=request.config_dict[READERS],
        transport=request.transport,
    )
    return await serve_session(request, session)


async def serve_session(request: web.Request, session: Session) -> web.StreamResponse:
    """Serve a request whose caller is authenticated. Raises Problem."""
    body = await read_json_body(request)
    max_keys = get_services(request).options.json_keys
    if too_many_keys(body, max_keys):
        raise Unprocessable(f"the JSON has more than {max_keys} keys (web.max_json_keys)")
    application = await request.config_dict[APPLICATIONS].get(session.toolset)
    return await serve_asgi(request, application, body, {SESSION: session})


async def end_streams(app: web.Application) -> None:
    """Tell the clients of open streams that the server stops."""
    if app[READERS].end_all():
        await asyncio.sleep(GRACE_S)
