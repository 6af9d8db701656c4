"""Serve a request of aiohttp with an ASGI application."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from aiohttp import web

from memrelay.web.auth.revocation import watch_access
from memrelay.web.server.connection_limits import get_connection

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApplication = Callable[[Message, Receive, Send], Awaitable[None]]
DISCONNECT: Message = {"type": "http.disconnect"}
# The extension of a scope that has its exchange.
EXCHANGE = "memrelay.exchange"

EXCHANGES = web.AppKey("exchanges", set["_Exchange"])


async def serve_asgi(
    request: web.Request, application: AsgiApplication, body: bytes, state: dict[str, Any]
) -> web.StreamResponse:
    """Return the response of an ASGI application. `state` becomes the state of its scope.

    The application runs in a task of its own, which ends when the client disconnects.
    """
    exchange = _Exchange(request, body)
    connection = get_connection(request)
    if connection is not None:
        connection.on_lost = exchange.end
    exchanges = request.config_dict[EXCHANGES]
    exchanges.add(exchange)
    task = asyncio.create_task(_run(application, _make_scope(request, state, exchange), exchange))
    try:
        with watch_access(request, lambda _: exchange.end()):
            await task
    finally:
        exchange.end()
        exchanges.discard(exchange)
        if connection is not None:
            connection.on_lost = None
    return exchange.finish()


async def end_exchanges(app: web.Application) -> None:
    """End all open requests when the server stops."""
    exchanges = app[EXCHANGES]
    for exchange in tuple(exchanges):
        exchange.end()


async def _run(application: AsgiApplication, scope: Message, exchange: "_Exchange") -> None:
    await application(scope, exchange.receive, exchange.send)


async def run_until_end(scope: Message, work: Awaitable[None]) -> None:
    """Await `work`, and cancel it when the exchange of this scope ends."""
    exchange: _Exchange = scope["extensions"][EXCHANGE]
    limit = asyncio.timeout(0 if exchange.has_ended else None)
    try:
        async with limit:
            exchange.limit = limit
            await work
    except TimeoutError:
        if not limit.expired():
            raise
    finally:
        exchange.limit = None


def _make_scope(request: web.Request, state: dict[str, Any], exchange: "_Exchange") -> Message:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": f"{request.version.major}.{request.version.minor}",
        "method": request.method,
        "scheme": request.scheme,
        "path": request.path,
        "raw_path": request.rel_url.raw_path.encode(),
        "query_string": request.query_string.encode(),
        "root_path": "",
        "headers": [(name.lower(), value) for name, value in request.raw_headers],
        "client": None,
        "server": None,
        "state": state,
        "extensions": {EXCHANGE: exchange},
    }


class _Exchange:
    """The messages of one request. A short response is sent at once, a stream piece by piece."""

    def __init__(self, request: web.Request, body: bytes) -> None:
        self._request, self._body = request, body
        self._is_read = False
        # An Event takes three times the memory.
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Expires at the end.
        self.limit: asyncio.Timeout | None = None
        self._head: tuple[int, list[tuple[bytes, bytes]]] = (500, [])
        self._response: web.StreamResponse | None = None

    @property
    def has_ended(self) -> bool:
        """True after the client disconnected or the server stopped."""
        return self._ended.done()

    async def receive(self) -> Message:
        """Return the body, and then the end of the exchange when it comes."""
        if not self._is_read:
            self._is_read = True
            return {"type": "http.request", "body": self._body, "more_body": False}
        await asyncio.wait([self._ended])
        return DISCONNECT

    def end(self) -> None:
        """Report the end of the exchange to the application."""
        if self.has_ended:
            return
        self._ended.set_result(None)
        if self.limit is not None:
            self.limit.reschedule(0)

    async def send(self, message: Message) -> None:
        """Pass on a part of the response. Raises OSError: the client has disconnected."""
        if message["type"] == "http.response.start":
            self._head = message["status"], list(message.get("headers", ()))
        elif message["type"] == "http.response.body":
            await self._send_body(message.get("body", b""), bool(message.get("more_body")))

    async def _send_body(self, body: bytes, has_more: bool) -> None:
        if self._response is None and not has_more:
            self._response = self._fill(web.Response(body=body))
            return
        if self._response is None:
            self._response = self._fill(web.StreamResponse())
            await self._response.prepare(self._request)
        try:
            if body:
                await self._response.write(body)
            if not has_more:
                await self._response.write_eof()
        except ConnectionError:
            self.end()
            raise

    def _fill(self, response: Any) -> Any:
        status, headers = self._head
        response.set_status(status)
        for name, value in headers:
            if name.lower() != b"content-length":
                response.headers[name.decode("latin-1")] = value.decode("latin-1")
        return response

    def finish(self) -> web.StreamResponse:
        """Return the response. Raises ConnectionResetError: there is none, as the client left."""
        if self._response is None:
            raise ConnectionResetError("the client disconnected before the response began")
        return self._response
