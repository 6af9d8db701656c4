"""The SDK's context of a request that is answered without the SDK's transports."""

from collections.abc import Mapping
from typing import Any

import anyio
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from starlette.requests import Request


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
