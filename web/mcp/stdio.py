"""Serve one client over the standard streams, until its input ends."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from mcp.server.stdio import stdio_server

from memrelay.web.mcp.server import NAME, make_server
from memrelay.web.mcp.session import Session


async def serve_stdio(session: Session) -> None:
    """Serve a session over stdin and stdout."""
    server = make_server(session.toolset, version(NAME))

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[Session]:
        yield session

    server.lifespan = lifespan
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())
