"""Load the MCP SDK when it is first needed, in a thread: it takes 57 MB and up to a second."""

import asyncio
import importlib
from importlib.util import find_spec
from typing import Protocol

from aiohttp import web

from memrelay.web.mcp.failures import NOT_INSTALLED, SDK
from memrelay.web.mcp.transports.bridge import AsgiApplication
from memrelay.web.server.errors import NotInstalled

MODULE = "memrelay.web.mcp.transports.applications"


class Applications(Protocol):
    """The ASGI applications of the toolsets."""

    async def get(self, toolset: str) -> AsgiApplication:
        """Return the running application of a toolset."""

    async def close(self) -> None:
        """End all applications."""


class LazyApplications:
    """The applications of the toolsets, loaded at their first use."""

    def __init__(self) -> None:
        self._loaded: Applications | None = None
        self._loading = asyncio.Lock()

    async def get(self, toolset: str) -> AsgiApplication:
        """Return the application of a toolset. Raises NotInstalled."""
        if self._loaded is None:
            async with self._loading:
                if self._loaded is None:
                    self._loaded = await _load()
        return await self._loaded.get(toolset)

    async def close(self) -> None:
        """End the applications, if they were loaded."""
        if self._loaded is not None:
            await self._loaded.close()


async def _load() -> Applications:
    if find_spec(SDK) is None:
        raise NotInstalled(NOT_INSTALLED)
    module = await asyncio.to_thread(
        importlib.import_module, "memrelay.web.mcp.transports.applications"
    )
    applications: Applications = module.RunningApplications()
    return applications


APPLICATIONS = web.AppKey("mcp_applications", LazyApplications)


async def close_applications(app: web.Application) -> None:
    """End the applications when the server stops."""
    await app[APPLICATIONS].close()
