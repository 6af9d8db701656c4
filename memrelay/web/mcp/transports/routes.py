"""The routes of the MCP server: streamable HTTP, for every pipeline of a key or for one."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from aiohttp import web
from msgspec.structs import replace

from memrelay.bus.errors import BusError
from memrelay.bus.request import NewCall
from memrelay.bus.streams.entry import LONGEST_ID, is_valid_id
from memrelay.memory.control.keys import SCOPES
from memrelay.memory.engine.time_zones import check_zone
from memrelay.memory.errors import Refused, StoreBroken, StoreBusy
from memrelay.memory.operations import all_operations
from memrelay.pipelines.json_text import too_many_keys
from memrelay.web.api.operation_routes import scopes_of
from memrelay.web.api.operations import check_command, hide_stored_text, send_call, validate_input
from memrelay.web.auth.access import get_caller, list_visible, requires
from memrelay.web.auth.authorizer import make_via
from memrelay.web.mcp.change_reader import ChangeReaders
from memrelay.web.mcp.lazy import Lazy
from memrelay.web.mcp.session import ACTOR, SESSION, TIMEZONE, PipelineName, Session
from memrelay.web.mcp.tool import (
    NOT_INSTALLED,
    SDK,
    JsonObject,
    ToolError,
    bus_failure,
    check_written,
    describe_invalid,
    refuse,
    retry_later,
)
from memrelay.web.mcp.toolsets import FILES, GRAPH, MEMORY
from memrelay.web.mcp.transports.bridge import AsgiApplication, serve_asgi
from memrelay.web.openapi.route_docs import ANY, documented
from memrelay.web.server.errors import (
    InsufficientScope,
    NotInstalled,
    Problem,
    RetryLater,
    Unprocessable,
    WriteStopped,
)
from memrelay.web.server.request_body import read_json_body
from memrelay.web.services import get_services

if TYPE_CHECKING:  # it loads the SDK
    from memrelay.web.mcp.transports.applications import RunningApplications

MODULE = "memrelay.web.mcp.transports.applications"
routes = web.RouteTableDef()
# What the client of a request reaches.
MCP_SESSION = web.RequestKey("mcp_session", Session)
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
        422: "The body has too many keys, or no time zone has that name.",
        501: "The extra `mcp` is not installed.",
    },
    body="A JSON-RPC message of the Model Context Protocol.",
    media_type=ANY,
    query={TIMEZONE: "The user's time zone, like Europe/Berlin; the pipeline's by default."},
    schemas={400: Any, 404: Any, 406: Any},
)
# The errors of REST name this header; a tool has an argument in its place.
IDEMPOTENCY_HEADER = "Idempotency-Key"


class LazyApplications:
    """The applications of the toolsets, loaded at their first use."""

    def __init__(self) -> None:
        self._applications: Lazy[RunningApplications] = Lazy(MODULE, "RunningApplications")

    async def get(self, toolset: str) -> AsgiApplication:
        """Return the application of a toolset. Raises NotInstalled."""
        if self._applications.loaded is None and find_spec(SDK) is None:
            raise NotInstalled(NOT_INSTALLED)
        return await (await self._applications.get()).get(toolset)

    @property
    def was_used(self) -> bool:
        """Return whether a client has connected since the start."""
        return self._applications.loaded is not None

    async def close(self) -> None:
        """End the applications, if they were loaded."""
        if self._applications.loaded is not None:
            await self._applications.loaded.close()


APPLICATIONS = web.AppKey("mcp_applications", LazyApplications)


async def close_applications(app: web.Application) -> None:
    """End the applications when the server stops."""
    await app[APPLICATIONS].close()


@routes.post(PATH)
@DOCUMENTATION
@requires(*SCOPES)
async def serve_all(request: web.Request) -> web.StreamResponse:
    """Serve MCP with the tools of every pipeline that the key may access."""
    return await _serve_toolset(request, MEMORY)


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
    """Serve a request whose caller is authenticated. Raises Problem."""
    uid = request.match_info.get("uid")
    if uid is not None:
        await get_services(request).directory.find(uid)
    grant = get_caller(request).grant
    session = Session(
        toolset,
        partial(HttpTarget, request),
        uid=uid,
        list_pipelines=partial(_list_pipelines, request),
        readers=request.config_dict[READERS],
        transport=request.transport,
        timezone=_read_timezone(request),
        more_scopes=grant.more_scopes if grant is not None else frozenset(),
    )
    request[MCP_SESSION] = session
    body = await read_json_body(request)
    max_keys = get_services(request).options.json_keys
    if too_many_keys(body, max_keys):
        raise Unprocessable(f"the JSON has more than {max_keys} keys (web.max_json_keys)")
    application = await request.config_dict[APPLICATIONS].get(toolset)
    response = await serve_asgi(request, application, body, {SESSION: session})
    if session.lacked and not response.prepared:
        raise InsufficientScope(get_caller(request).scopes | session.lacked)
    return response


def _read_timezone(request: web.Request) -> str:
    """Return the zone in the URL of the client, "" for none. Raises Unprocessable."""
    name = request.query.get(TIMEZONE, "")
    try:
        return check_zone(name)
    except Refused as error:
        raise Unprocessable(f"`?{TIMEZONE}`: {error}") from error


async def _list_pipelines(request: web.Request, *, refresh: bool = False) -> Sequence[PipelineName]:
    visible = await list_visible(request, refresh=refresh)
    return [PipelineName(one.deployed.uid, one.deployed.name) for one in visible]


async def end_streams(app: web.Application) -> None:
    """Tell the clients of open streams that the server stops."""
    if app[READERS].end_all():
        await asyncio.sleep(GRACE_S)


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """A pipeline, in which the caller of a request calls operations."""

    request: web.Request
    uid: str

    def may_call(self, operation: str) -> bool:
        """Return whether the caller's key has the access of an operation."""
        scopes = scopes_of(all_operations()[operation])
        return not get_caller(self.request).scopes.isdisjoint(scopes)

    async def call(
        self,
        operation: str,
        input: JsonObject,
        *,
        store: str = "",
        idempotency_key: str = "",
        as_of: str = "",
    ) -> Any:
        """Call an operation in the pipeline. Raises ToolError."""
        if not is_valid_id(idempotency_key):
            raise refuse(f"`idempotency_key` must have at most {LONGEST_ID} printable characters")
        try:
            call = await self._make_call(operation, input, store, idempotency_key)
            output = await send_call(self.request, replace(call, as_of=as_of))
            return hide_stored_text(self.request, all_operations()[operation], output)
        except Problem as problem:
            if isinstance(problem, WriteStopped):
                check_written(problem.output)
            raise _as_tool_error(problem) from problem
        except BusError as error:
            raise bus_failure(error) from error
        except (StoreBusy, StoreBroken) as error:
            raise retry_later(str(error)) from error

    async def _make_call(self, name: str, input: JsonObject, store: str, call_id: str) -> NewCall:
        """Return the call, if the caller's key has its access."""
        operation, request = all_operations()[name], self.request
        caller, scopes = get_caller(request), scopes_of(operation)
        if caller.scopes.isdisjoint(scopes):
            request[MCP_SESSION].note_lacking(scopes)
        caller.check_any(scopes, self.uid)
        check_command(caller, operation, input)
        await get_services(request).directory.find(self.uid)
        return NewCall(
            self.uid,
            name,
            validate_input(operation, input),
            operation.mutates,
            store,
            caller.name or ACTOR,
            call_id if operation.mutates else "",
            via=make_via(caller, "mcp"),
        )


def _as_tool_error(problem: Problem) -> ToolError:
    detail = problem.detail.replace(IDEMPOTENCY_HEADER, "idempotency_key")
    if isinstance(problem, RetryLater):
        return retry_later(detail, problem.retry_after_s)
    faults = describe_invalid(problem.members.get("faults", ()))
    return refuse(detail.removesuffix("; see `faults`"), faults)
