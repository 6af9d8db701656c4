"""The MCP server of a toolset. It is the same over HTTP and stdio.

A handshake needs no tool, so the tools load at the first request that does, in a thread.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from opentelemetry.trace import ProxyTracerProvider, get_tracer_provider

from memrelay.web.mcp.lazy import Lazy
from memrelay.web.mcp.resource_handlers import add_resources
from memrelay.web.mcp.tool import JsonObject
from memrelay.web.mcp.toolsets import INSTRUCTIONS

if TYPE_CHECKING:  # it loads the tools
    from memrelay.web.mcp.tool_handlers import ToolHandlers

NAME, TITLE = "memrelay", "Memrelay"
HANDLERS = "memrelay.web.mcp.tool_handlers"
Request = ServerRequestContext[Any, Any]


def make_server(toolset: str, version: str) -> Server[Any]:
    """Return the server of a toolset. `version` is that of the product."""
    tools = _LazyTools(toolset)
    server = Server(
        NAME,
        version=version,
        title=TITLE,
        instructions=INSTRUCTIONS[toolset],
        get_tool_input_schema=tools.find_schema,
        on_list_tools=tools.list,
        on_call_tool=tools.call,
    )
    server.middleware.clear()
    if not isinstance(get_tracer_provider(), ProxyTracerProvider):
        server.middleware.append(import_module("memrelay.web.mcp.tracing").trace_request)
    add_resources(server, toolset)
    return server


class _LazyTools:
    """The handlers of a toolset, loaded at the first request."""

    def __init__(self, toolset: str) -> None:
        self._handlers: Lazy[ToolHandlers] = Lazy(HANDLERS, "ToolHandlers", toolset)

    def find_schema(self, name: str) -> JsonObject | None:
        """Return the input schema of a tool, None for an unknown one."""
        return self._handlers.load().find_schema(name)

    async def list(
        self, request: Request, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """Return the tools that the client's key may use."""
        return await (await self._handlers.get()).list(request, params)

    async def call(
        self, request: Request, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        """Return the result of a tool, or its error. Raises MCPError: there is no such tool."""
        return await (await self._handlers.get()).call(request, params)
