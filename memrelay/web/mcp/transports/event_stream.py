"""The response of a request that sends notifications: server-sent events.

The SDK runs three tasks for such a response. This one needs none.
"""

from asyncio import Transport
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import orjson
from starlette.requests import Request

from memrelay.web.mcp.transports.bridge import Send
from memrelay.web.mcp.transports.dispatch_context import DispatchContext

MEDIA_TYPE = "text/event-stream"
HEADERS = [
    (b"content-type", MEDIA_TYPE.encode()),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]
# A comment, so that no proxy closes a quiet stream.
PING = b": ping\r\n\r\n"


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
            await self._send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        await self._send({"type": "http.response.body", "body": piece, "more_body": True})

    async def ping(self) -> None:
        """Send a comment, unless the stream has not begun or its client reads slowly."""
        transport = self._transport
        if self.has_begun and transport is not None and not transport.get_write_buffer_size():
            with suppress(ConnectionError):
                await self._send_piece(PING)
