"""Serve one client over the standard streams, until its input ends."""

import asyncio
import json
import os
import stat
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from typing import Any

import mcp_types as types
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from memrelay.web.mcp.resource_handlers import add_subscribing
from memrelay.web.mcp.server import NAME, make_server
from memrelay.web.mcp.session import Session

# Bytes of a message from the client.
MAX_LINE_BYTES = 64 << 20
# A stream of updates, which ends only with its client.
LISTEN = "subscriptions/listen"
NO_JSON = "the line is not JSON; send one JSON-RPC message per line, in UTF-8"
NO_REQUEST = 'this is no JSON-RPC request; send {"jsonrpc": "2.0", "id": ..., "method": ...}'
HALF_CHARACTER = (
    "the request has half of a surrogate pair, such as the first half of an emoji, and nothing was "
    "changed; send whole characters"
)
Send = Callable[[SessionMessage], Awaitable[None]]
# How often the end of running requests is checked.
LOOK_AGAIN_S = 0.02


async def serve_stdio(session: Session) -> None:
    """Serve a session over stdin and stdout."""
    server = make_server(session.toolset, version(NAME))

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[Session]:
        yield session

    server.lifespan = lifespan
    running = _Running()
    server.middleware.append(running)
    async with AsyncExitStack() as stack:
        subscriptions = await add_subscribing(server, session)
        if subscriptions is not None:
            await stack.enter_async_context(subscriptions)
        lines = await _open_stdin(running)
        incoming, outgoing = await stack.enter_async_context(stdio_server(lines))  # type: ignore[arg-type]
        if lines is not None:
            lines.answer_with(outgoing.send)
        await server.run(incoming, outgoing, server.create_initialization_options())


class _Running:
    """Counts the running requests, which the SDK would cancel when stdin ends."""

    def __init__(self) -> None:
        self._count = 0

    async def __call__(self, ctx: Any, call_next: Any) -> Any:
        """Run a request (the SDK's middleware)."""
        if ctx.method == LISTEN:
            return await call_next(ctx)
        self._count += 1
        try:
            return await call_next(ctx)
        finally:
            self._count -= 1

    async def finish(self) -> None:
        """Wait until all requests are answered."""
        await asyncio.sleep(LOOK_AGAIN_S)
        while self._count:
            await asyncio.sleep(LOOK_AGAIN_S)
        await asyncio.sleep(LOOK_AGAIN_S)


class _Lines:
    """The lines of a pipe. The SDK reads stdin in a thread, which no signal could end."""

    def __init__(self, reader: asyncio.StreamReader, running: "_Running") -> None:
        self._reader, self._running = reader, running
        self._send: asyncio.Future[Send] = asyncio.get_running_loop().create_future()

    def answer_with(self, send: Send) -> None:
        """Answer malformed requests, which the SDK would drop."""
        self._send.set_result(send)

    def __aiter__(self) -> "_Lines":
        return self

    async def __anext__(self) -> str:
        while line := await self._reader.readline():
            text = line.decode(errors="replace")
            error = find_malformed(text)
            if error is None:
                return text
            await (await self._send)(SessionMessage(error))
        await self._running.finish()
        raise StopAsyncIteration


def find_malformed(line: str) -> types.JSONRPCError | None:
    """Return the error of a line that is no JSON-RPC message; None for a message, and for a line
    that takes no answer.
    """
    try:
        types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        return None
    except ValidationError:
        code, text = types.INVALID_REQUEST, NO_REQUEST
    try:
        # Unlike the SDK's parser, it accepts half of a surrogate pair.
        message = json.loads(line)
    except (ValueError, RecursionError):
        message, code, text = None, types.PARSE_ERROR, NO_JSON
    if not line.strip() or (isinstance(message, dict) and "id" not in message):
        return None
    if _has_half_characters(message):
        code, text = types.INVALID_PARAMS, HALF_CHARACTER
    ident = message.get("id") if isinstance(message, dict) else None
    has_id = isinstance(ident, int | str) and not _has_half_characters(ident)
    data = types.ErrorData(code=code, message=text)
    return types.JSONRPCError(jsonrpc="2.0", id=ident if has_id else None, error=data)


def _has_half_characters(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


async def _open_stdin(running: _Running) -> _Lines | None:
    """Return the lines of stdin; None if it is a file, which the SDK must read."""
    mode = os.fstat(sys.stdin.fileno()).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return None
    reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    return _Lines(reader, running)
