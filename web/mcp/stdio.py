"""Serve one client over the standard streams, until its input ends."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from typing import Any

from mcp.server.stdio import stdio_server

from memrelay.web.mcp.resource_handlers import add_subscribing
from memrelay.web.mcp.server import NAME, make_server
from memrelay.web.mcp.session import Session


async def serve_stdio(session: Session) -> None:
    """Serve a session over stdin and stdout."""
    server = make_server(session.toolset, version(NAME))

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[Session]:
        yield session

    server.lifespan = lifespan
    async with AsyncExitStack() as stack:
        subscriptions = await add_subscribing(server, session)
        if subscriptions is not None:
            await stack.enter_async_context(subscriptions)
        incoming, outgoing = await stack.enter_async_context(stdio_server())
        await server.run(incoming, outgoing, server.create_initialization_options())
