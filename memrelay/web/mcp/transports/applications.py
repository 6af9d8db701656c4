"""The ASGI applications of the toolsets: the SDK's session managers, which run while they serve.

Tool calls and streams of updates are answered without the SDK's transports. For each request of a
handshake client, the SDK's stateless transport starts four tasks and five streams. That takes as
long as the call of an operation. A tool of the product sends its answer and nothing before it. For
a stream of updates, the SDK's tasks take half of the memory.
"""

import asyncio
import logging
from asyncio import Transport
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from typing import Any, NamedTuple

import anyio
import orjson
import pydantic_core
from mcp.server.connection import Connection
from mcp.server.lowlevel import Server
from mcp.server.runner import serve_one
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    MCP_PARAM_HEADER_PREFIX,
    MCP_PROTOCOL_VERSION_HEADER,
    InboundModernRoute,
    classify_inbound_request,
)
from mcp.shared.jsonrpc_dispatcher import handler_exception_to_error_data
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types import DEFAULT_NEGOTIATED_VERSION, JSONRPCRequest
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError
from starlette.requests import Request

from memrelay.web.mcp.server import NAME, make_server
from memrelay.web.mcp.session import SESSION
from memrelay.web.mcp.subscriptions import SlowClient
from memrelay.web.mcp.transports.bridge import (
    AsgiApplication,
    Message,
    Receive,
    Send,
    run_until_end,
)

MEDIA_TYPE = "text/event-stream"
STREAM_HEADERS = [
    (b"content-type", MEDIA_TYPE.encode()),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]
# A comment, so that no proxy closes a quiet stream.
PING = b": ping\r\n\r\n"
CALL, LISTEN = "tools/call", "subscriptions/listen"
JSON = "application/json"
# Values of Accept that allow JSON. The SDK answers all other requests.
ACCEPTS = (JSON, "application/*", "*/*")
HEADERS = [(b"content-type", JSON.encode())]
PARAMETER_PREFIX = MCP_PARAM_HEADER_PREFIX.lower()
OK = 200
# The largest number as an id that orjson can write. The SDK answers calls with a larger one.
MAX_ID = 2**63 - 1
# It logs the beginning and the end of every request.
logging.getLogger("mcp").setLevel(logging.WARNING)
# How often quiet streams get a comment, so that no proxy closes them.
PING_S = 15.0


class DispatchContext:
    """The SDK's context of a request whose client receives only the response."""

    can_send_request = False

    def __init__(self, request_id: "str | int", request: Request) -> None:
        self.request_id = request_id
        self.message_metadata = ServerMessageMetadata(request_context=request)
        self.transport = TransportContext(kind="streamable-http", can_send_request=False)

    @property
    def cancel_requested(self) -> anyio.Event:
        """An event that never happens: a client cancels by disconnecting."""
        return anyio.Event()

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: Any = None
    ) -> dict[str, Any]:
        """Raise NoBackChannelError."""
        raise NoBackChannelError(method)

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: Any = None) -> None:
        """Drop a notification."""

    async def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Drop a report of progress."""


class EventStream(DispatchContext):
    """A context whose response begins with the first notification."""

    def __init__(
        self, request_id: "str | int", request: Request, send: Send, transport: Transport | None
    ) -> None:
        super().__init__(request_id, request)
        self._send, self._transport = send, transport
        self.has_begun = False

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: Any = None) -> None:
        """Send a notification. Raises OSError: the client has disconnected."""
        await self._send_event({"method": method} | ({"params": params} if params else {}))

    async def finish(self, answer: Mapping[str, Any]) -> None:
        """Send the response, and end the stream. Raises OSError."""
        await self._send_event({"id": self.request_id, **answer})
        await self._send({"type": "http.response.body", "body": b""})

    async def _send_event(self, message: Mapping[str, Any]) -> None:
        data = orjson.dumps({"jsonrpc": "2.0", **message})
        await self._send_piece(b"event: message\r\ndata: %b\r\n\r\n" % data)

    async def _send_piece(self, piece: bytes) -> None:
        if not self.has_begun:
            self.has_begun = True
            await self._send(
                {"type": "http.response.start", "status": 200, "headers": STREAM_HEADERS}
            )
        await self._send({"type": "http.response.body", "body": piece, "more_body": True})

    async def ping(self) -> None:
        """Send a comment, unless the stream has not begun or its client reads slowly."""
        transport = self._transport
        if self.has_begun and transport is not None and not transport.get_write_buffer_size():
            with suppress(ConnectionError):
                await self._send_piece(PING)


class DirectCalls:
    """An ASGI application that answers these calls itself and passes on all other requests."""

    def __init__(self, server: Server[Any], others: AsgiApplication) -> None:
        self._server, self._others = server, others
        self._streams = set[EventStream]()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve a request whose body comes in one message."""
        message = await receive()
        call = _parse_call(scope, message["body"])
        if call is None:
            await self._others(scope, _Replay(message, receive), send)
        elif call.request.method == LISTEN:
            await self._listen(scope, send, call)
        else:
            context = DispatchContext(call.request.id, Request(scope))
            await _send_answer(send, call, *await self._answer(context, call))

    async def _listen(self, scope: Message, send: Send, call: "_Call") -> None:
        """Serve a stream of updates until it ends or its client disconnects."""
        transport = scope["state"][SESSION].transport
        stream = EventStream(call.request.id, Request(scope), send, transport)
        self._streams.add(stream)
        try:
            await run_until_end(scope, self._send_updates(stream, send, call))
        except (ConnectionError, SlowClient):
            return
        finally:
            self._streams.discard(stream)

    async def _send_updates(self, stream: EventStream, send: Send, call: "_Call") -> None:
        status, answer = await self._answer(stream, call)
        if stream.has_begun:
            await stream.finish(answer)
        else:
            await _send_answer(send, call, status, answer)

    async def ping(self) -> None:
        """Keep the connections of quiet streams open."""
        for stream in tuple(self._streams):
            await stream.ping()

    async def _answer(self, context: DispatchContext, call: "_Call") -> tuple[int, dict[str, Any]]:
        """Return the status, and the member `result` or `error` of the response."""
        try:
            result = await serve_one(
                self._server,
                context,
                call.request.method,
                call.request.params,
                connection=call.connection,
                lifespan_state={},
            )
        except (MCPError, ValidationError) as error:
            fault = handler_exception_to_error_data(error)
            if fault is None:
                raise
            status = ERROR_CODE_HTTP_STATUS.get(fault.code, OK) if call.is_modern else OK
            return status, {"error": fault.model_dump(exclude_none=True)}
        return OK, {"result": result}


class _Call(NamedTuple):
    """A valid request of one of these methods. `is_modern`: its client made no handshake."""

    request: JSONRPCRequest
    connection: Connection
    is_modern: bool


async def _send_answer(send: Send, call: _Call, status: int, answer: dict[str, Any]) -> None:
    await send({"type": "http.response.start", "status": status, "headers": HEADERS})
    body = orjson.dumps({"jsonrpc": "2.0", "id": call.request.id} | answer)
    await send({"type": "http.response.body", "body": body})


def _parse_call(scope: Message, body: bytes) -> _Call | None:
    """Return the call in a body, None if the SDK must refuse or answer it."""
    headers = {name.decode("latin-1"): text.decode("latin-1") for name, text in scope["headers"]}
    if not (_is_plain_post(scope, headers) and (CALL.encode() in body or LISTEN.encode() in body)):
        return None
    try:
        decoded = pydantic_core.from_json(body)
        request = JSONRPCRequest.model_validate(decoded, by_name=False)
    except ValueError:
        return None
    if _is_long_number(request.id):
        return None
    version = headers.get(MCP_PROTOCOL_VERSION_HEADER, DEFAULT_NEGOTIATED_VERSION)
    if request.method == CALL and version in HANDSHAKE_PROTOCOL_VERSIONS:
        return _Call(request, Connection.from_envelope(version, None, None), is_modern=False)
    takes_events = request.method == LISTEN and MEDIA_TYPE in headers["accept"].lower()
    if request.method != CALL and not takes_events:
        return None
    route = classify_inbound_request(decoded, headers=headers)
    if not isinstance(route, InboundModernRoute):
        return None
    connection = Connection.from_envelope(
        route.protocol_version, route.client_info, route.client_capabilities
    )
    return _Call(request, connection, is_modern=True)


def _is_plain_post(scope: Message, headers: Mapping[str, str]) -> bool:
    """Return whether the headers are valid in every version and appear once."""
    accept = headers.get("accept", "").lower()
    return (
        scope["method"] == "POST"
        and headers.get("content-type", "").partition(";")[0].strip().lower() == JSON
        and any(one in accept for one in ACCEPTS)
        and len(headers) == len(scope["headers"])
        and not any(name.startswith(PARAMETER_PREFIX) for name in headers)
    )


def _is_long_number(request_id: "str | int") -> bool:
    return isinstance(request_id, int) and abs(request_id) > MAX_ID


class _Replay:
    """Returns a message that was already received, and then the following ones."""

    def __init__(self, message: Message, receive: Receive) -> None:
        self._message: Message | None = message
        self._receive = receive

    async def __call__(self) -> Message:
        message, self._message = self._message, None
        return await self._receive() if message is None else message


class RunningApplications:
    """One session manager per toolset, started at its first use."""

    def __init__(self) -> None:
        self._running: dict[str, RunningServer] = {}

    async def get(self, toolset: str) -> AsgiApplication:
        """Return the application of a toolset."""
        running = self._running.get(toolset)
        if running is None:
            running = RunningServer(make_server(toolset, version(NAME)))
            self._running[toolset] = running
        await running.started.wait()
        return running.application

    async def close(self) -> None:
        """End all requests and session managers."""
        for running in self._running.values():
            await running.stop()


class RunningServer:
    """Runs the session manager of a server in a task: its task group must end where it began.

    Answers are plain JSON unless `streams`, which lets tools send notifications while they run.
    The product's routes limit the size of bodies before.
    """

    def __init__(self, server: "Server[Any]", *, streams: bool = False) -> None:
        self._manager = StreamableHTTPSessionManager(
            server, stateless=True, json_response=not streams, max_request_body_size=1 << 40
        )
        handle: AsgiApplication = self._manager.handle_request
        self._direct = DirectCalls(server, handle)
        self.application = handle if streams else self._direct
        self.started, self._stopping = asyncio.Event(), asyncio.Event()
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End the session manager."""
        self._stopping.set()
        await self._task

    async def _run(self) -> None:
        async with self._manager.run():
            self.started.set()
            while not self._stopping.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), PING_S)
                await self._direct.ping()
