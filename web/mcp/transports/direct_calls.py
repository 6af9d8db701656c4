"""Answer tool calls without the SDK's transports.

For each request of a handshake client, the SDK's stateless transport starts four tasks and five
streams. That takes as long as the call of an operation. A tool of the product sends its answer and
nothing before it.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import anyio
import orjson
import pydantic_core
from mcp.server.connection import Connection
from mcp.server.lowlevel import Server
from mcp.server.runner import serve_one
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

from memrelay.web.mcp.transports.bridge import AsgiApplication, Message, Receive, Send

METHOD = "tools/call"
JSON = "application/json"
# Values of Accept that allow JSON. The SDK answers all other requests.
ACCEPTS = (JSON, "application/*", "*/*")
HEADERS = [(b"content-type", JSON.encode())]
PARAMETER_PREFIX = MCP_PARAM_HEADER_PREFIX.lower()
OK = 200
# The largest number as an id that orjson can write. The SDK answers calls with a larger one.
MAX_ID = 2**63 - 1


class DirectCalls:
    """An ASGI application that answers these calls itself and passes on all other requests."""

    def __init__(self, server: Server[Any], others: AsgiApplication) -> None:
        self._server, self._others = server, others

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve a request whose body comes in one message."""
        message = await receive()
        headers = {
            name.decode("latin-1"): text.decode("latin-1") for name, text in scope["headers"]
        }
        is_plain = _is_plain_post(scope, headers) and METHOD.encode() in message["body"]
        call = _parse_call(headers, message["body"]) if is_plain else None
        if call is None:
            await self._others(scope, _Replay(message, receive), send)
            return
        status, answer = await self._answer(scope, call)
        start = {"type": "http.response.start", "status": status, "headers": HEADERS}
        await send(start)
        body = orjson.dumps({"jsonrpc": "2.0", "id": call.request.id} | answer)
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Message, call: "_Call") -> tuple[int, dict[str, Any]]:
        """Return the status, and the member `result` or `error` of the response."""
        request = call.request
        exchange = _Exchange(request.id, Request(scope))
        try:
            result = await serve_one(
                self._server,
                exchange,
                request.method,
                request.params,
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
    """A valid call of a tool. `is_modern`: its client made no handshake."""

    request: JSONRPCRequest
    connection: Connection
    is_modern: bool


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


def _parse_call(headers: Mapping[str, str], body: bytes) -> _Call | None:
    """Return the call in a body, None if the SDK must refuse or answer it."""
    try:
        decoded = pydantic_core.from_json(body)
        request = JSONRPCRequest.model_validate(decoded, by_name=False)
    except ValueError:
        return None
    if request.method != METHOD or _is_long_number(request.id):
        return None
    version = headers.get(MCP_PROTOCOL_VERSION_HEADER, DEFAULT_NEGOTIATED_VERSION)
    if version in HANDSHAKE_PROTOCOL_VERSIONS:
        return _Call(request, Connection.from_envelope(version, None, None), is_modern=False)
    route = classify_inbound_request(decoded, headers=headers)
    if not isinstance(route, InboundModernRoute):
        return None
    connection = Connection.from_envelope(
        route.protocol_version, route.client_info, route.client_capabilities
    )
    return _Call(request, connection, is_modern=True)


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


class _Exchange:
    """The SDK's context of a request whose client receives only the response."""

    can_send_request = False

    def __init__(self, request_id: "str | int", request: Request) -> None:
        self.request_id = request_id
        self.message_metadata = ServerMessageMetadata(request_context=request)
        self.transport = TransportContext(kind="streamable-http", can_send_request=False)
        self.cancel_requested = anyio.Event()

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
