"""The ASGI applications of the toolsets: the SDK's session managers, which run while they serve."""

import asyncio
import logging
from contextlib import suppress
from importlib.metadata import version
from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from memrelay.web.mcp.server import NAME, make_server
from memrelay.web.mcp.transports.bridge import AsgiApplication
from memrelay.web.mcp.transports.direct_calls import DirectCalls

# It logs the beginning and the end of every request.
logging.getLogger("mcp").setLevel(logging.WARNING)
# How often quiet streams get a comment, so that no proxy closes them.
PING_S = 15.0


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
