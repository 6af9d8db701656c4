"""Answer the tool calls of handshake clients without a transport for each request.

The SDK's stateless transport starts four tasks and five streams per request, which takes longer
than the call of an operation. A tool of the product sends one answer and nothing before it.
"""

from collections.abc import Mapping
from typing import Any

import anyio
import orjson
import pydantic_core
from mcp.server.connection import Connection
from mcp.server.lowlevel import Server
from mcp.server.runner import serve_one
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.jsonrpc_dispatcher import handler_exception_to_error_data
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types import DEFAULT_NEGOTIATED_VERSION, JSONRPCRequest
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError
from starlette.requests import Request

from memrelay.web.mcp.bridge import AsgiApplication, Message, Receive, Send

METHOD = "tools/call"
JSON = b"application/json"
# Values of Accept that allow JSON. The SDK answers all other requests.
ACCEPTS = (JSON, b"application/*", b"*/*")


class DirectCalls:
    """An ASGI application that answers these calls itself and passes on all other requests."""

    def __init__(self, server: Server[Any], others: AsgiApplication) -> None:
        self._server, self._others = server, others

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve a request whose body comes in one message."""
        message = await receive()
        headers = dict(scope["headers"])
        call = _parse_call(message["body"]) if _may_be_call(scope, headers) else None
        if call is None:
            await self._others(scope, _Replay(message, receive), send)
            return
        answer = {"jsonrpc": "2.0", "id": call.id} | await self._answer(scope, headers, call)
        start = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", JSON)]}
        await send(start)
        await send({"type": "http.response.body", "body": orjson.dumps(answer)})

    async def _answer(
        self, scope: Message, headers: Mapping[bytes, bytes], call: JSONRPCRequest
    ) -> dict[str, Any]:
        """Return the member `result` or `error` of the response."""
        version = headers.get(b"mcp-protocol-version", b"").decode() or DEFAULT_NEGOTIATED_VERSION
        connection = Connection.from_envelope(version, None, None)
        exchange = _Exchange(call.id, Request(scope))
        try:
            result = await serve_one(
                self._server,
                exchange,
                call.method,
                call.params,
                connection=connection,
                lifespan_state={},
            )
        except (MCPError, ValidationError) as error:
            fault = handler_exception_to_error_data(error)
            return {"error": fault.model_dump(exclude_none=True) if fault else None}
        return {"result": result}


def _may_be_call(scope: Message, headers: Mapping[bytes, bytes]) -> bool:
    version = headers.get(b"mcp-protocol-version", b"").decode("latin-1")
    accept = headers.get(b"accept", b"").lower()
    return (
        scope["method"] == "POST"
        and (not version or version in HANDSHAKE_PROTOCOL_VERSIONS)
        and headers.get(b"content-type", b"").partition(b";")[0].strip().lower() == JSON
        and any(one in accept for one in ACCEPTS)
    )


def _parse_call(body: bytes) -> JSONRPCRequest | None:
    """Return the request in a body, None if it is not a valid one that calls a tool."""
    if METHOD.encode() not in body:
        return None
    try:
        call = JSONRPCRequest.model_validate(pydantic_core.from_json(body), by_name=False)
    except ValueError:
        return None
    return call if call.method == METHOD else None


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
