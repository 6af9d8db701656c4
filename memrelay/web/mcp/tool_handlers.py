"""Lists and calls the tools of a toolset. It loads the tools, and so the operations they use."""

from functools import cache
from typing import Any

import mcp_types as types
import orjson
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from memrelay.memory.operations import known_operation
from memrelay.web.api.operation_scopes import scopes_of
from memrelay.web.mcp.arguments import (
    ToolKey,
    check_arguments,
    schema_with_pipeline,
    take_pipeline,
)
from memrelay.web.mcp.failures import refuse
from memrelay.web.mcp.session import Session, session_of
from memrelay.web.mcp.tool import JsonObject, Target, Tool, ToolError
from memrelay.web.mcp.tools.toolsets import TOOLSETS

Request = ServerRequestContext[Any, Any]


class ToolHandlers:
    """The handlers of a toolset."""

    def __init__(self, toolset: str) -> None:
        self._tools = {tool.name: tool for tool in TOOLSETS[toolset]}

    def find_schema(self, name: str) -> JsonObject | None:
        """Return the input schema of a tool, None for an unknown one."""
        tool = self._tools.get(name)
        return None if tool is None else tool.input_schema

    async def list(
        self, request: Request, _: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """Return the tools that the client's key may use."""
        session = session_of(request)
        target, takes_pipeline = session.any_target, session.takes_pipeline
        is_required = await session.needs_pipeline()
        shown = [
            _describe(ToolKey(tool), takes_pipeline, is_required)
            for tool in self._tools.values()
            if may_use(tool, target)
        ]
        return types.ListToolsResult(tools=shown, cache_scope="private")

    async def call(
        self, request: Request, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        """Return the result of a tool, or its error. Raises MCPError: there is no such tool."""
        tool = self._tools.get(params.name)
        if tool is None:
            known = ", ".join(self._tools)
            raise MCPError(INVALID_PARAMS, f"unknown tool {params.name[:100]!r}; known: {known}")
        try:
            return await run_tool(session_of(request), tool, params.arguments or {})
        except ToolError as error:
            text = types.TextContent(type="text", text=str(error))
            return types.CallToolResult(content=[text], is_error=True)


def may_use(tool: Tool, target: Target) -> bool:
    """Return whether the client's key may call at least one operation of a tool."""
    return any(map(target.may_call, tool.operations))


async def run_tool(session: Session, tool: Tool, arguments: JsonObject) -> types.CallToolResult:
    """Run a tool and return its result. Raises ToolError."""
    if not may_use(tool, session.any_target):
        scopes = [scope for name in tool.operations for scope in scopes_of(known_operation(name))]
        needed = " or ".join(dict.fromkeys(scopes))
        raise refuse(f"{tool.name} needs a key with the scope {needed}; use such a key")
    check_arguments(tool, arguments, takes_pipeline=session.takes_pipeline)
    pipeline = None
    if session.takes_pipeline:
        pipeline, arguments = take_pipeline(arguments)
    value = await tool.run(await session.find_target(pipeline), arguments)
    text = orjson.dumps(value).decode() if tool.to_text is None else tool.to_text(value)
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], structured_content=value
    )


@cache
def _describe(key: ToolKey, takes_pipeline: bool, is_required: bool) -> types.Tool:
    tool = key.tool
    schema = tool.input_schema
    if takes_pipeline:
        schema = schema_with_pipeline(tool, is_required=is_required)
    hints = tool.hints
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=schema,
        output_schema=tool.output_schema,
        annotations=types.ToolAnnotations(
            read_only_hint=hints.read_only,
            destructive_hint=hints.destructive,
            idempotent_hint=hints.idempotent,
            open_world_hint=False,
        ),
    )
