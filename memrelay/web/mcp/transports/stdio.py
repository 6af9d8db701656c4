"""Serve one client over the standard streams, until its input ends."""

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from typing import Any

from mcp.server.stdio import stdio_server

from memrelay.web.mcp.resource_handlers import add_subscribing
from memrelay.web.mcp.server import NAME, make_server
from memrelay.web.mcp.session import Session

# Bytes of a message from the client.
MAX_LINE_BYTES = 64 << 20
# A stream of updates, which ends only with its client.
LISTEN = "subscriptions/listen"
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
        incoming, outgoing = await stack.enter_async_context(
            stdio_server(await _open_stdin(running))
        )
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

    def __aiter__(self) -> "_Lines":
        return self

    async def __anext__(self) -> str:
        line = await self._reader.readline()
        if not line:
            await self._running.finish()
            raise StopAsyncIteration
        return line.decode(errors="replace")


async def _open_stdin(running: _Running) -> Any:
    """Return the lines of stdin; None if it is a file, which the SDK must read."""
    mode = os.fstat(sys.stdin.fileno()).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return None
    reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    return _Lines(reader, running)
