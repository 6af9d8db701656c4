"""Lists and calls the tools of a toolset, after a check of the arguments.

It loads the tools, and so the operations they use.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import mcp_types as types
import orjson
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from memrelay.memory.operations import known_operation
from memrelay.web.api.operation_routes import scopes_of
from memrelay.web.mcp.arguments import PIPELINE, read_arguments, schema_with_pipeline
from memrelay.web.mcp.session import TIMEZONE, PipelineName, Session, get_session, name_pipelines
from memrelay.web.mcp.tool import JsonObject, Target, Tool, ToolError, refuse
from memrelay.web.mcp.tools.files import FILE_TOOLS
from memrelay.web.mcp.tools.graph import GRAPH_TOOLS
from memrelay.web.mcp.tools.memory_toolset import MEMORY_TOOLS
from memrelay.web.mcp.toolsets import FILES, GRAPH, MEMORY

Request = ServerRequestContext[Any, Any]
PIPELINE_SCHEMA = {"type": "string"}
TOOLSETS: dict[str, tuple[Tool, ...]] = {
    MEMORY: MEMORY_TOOLS,
    GRAPH: GRAPH_TOOLS,
    FILES: FILE_TOOLS,
}
# The tools that a client may call: also those of the official server, whose names prompts mention.
CALLABLE = TOOLSETS | {MEMORY: (*MEMORY_TOOLS, *GRAPH_TOOLS)}


def take_pipeline(arguments: JsonObject) -> tuple[str | None, JsonObject]:
    """Return the argument `pipeline`, None if it is absent, and the other arguments."""
    others = {name: value for name, value in arguments.items() if name != PIPELINE}
    return arguments.get(PIPELINE), others


class ToolHandlers:
    """The handlers of a toolset."""

    def __init__(self, toolset: str) -> None:
        self._listed = TOOLSETS[toolset]
        self._callable = {tool.name: tool for tool in CALLABLE[toolset]}

    def find_schema(self, name: str) -> JsonObject | None:
        """Return the input schema of a tool, None for an unknown one."""
        tool = self._callable.get(name)
        return None if tool is None else tool.input_schema

    async def list(
        self, request: Request, _: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """Return the tools that the client's key may use."""
        session = get_session(request)
        target, takes_pipeline = session.any_target, session.takes_pipeline
        pipelines = await session.list_pipelines()
        is_required = takes_pipeline and len(pipelines) > 1
        shown = [
            _describe_tool(tool, takes_pipeline, is_required)
            for tool in self._listed
            if may_use(tool, target) or not session.more_scopes.isdisjoint(_list_scopes(tool))
        ]
        if shown and is_required:
            # Once for all tools: each description costs tokens in every conversation.
            shown[0] = _with_pipelines(shown[0], pipelines)
        return types.ListToolsResult(tools=shown, cache_scope="private")

    async def call(
        self, request: Request, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        """Return the result of a tool, or its error. Raises MCPError: there is no such tool."""
        tool = self._callable.get(params.name)
        if tool is None:
            known = ", ".join(tool.name for tool in self._listed)
            raise MCPError(INVALID_PARAMS, f"unknown tool {params.name[:100]!r}; known: {known}")
        try:
            return await run_tool(get_session(request), tool, params.arguments or {})
        except ToolError as error:
            text = types.TextContent(type="text", text=str(error))
            return types.CallToolResult(content=[text], is_error=True)


def may_use(tool: Tool, target: Target) -> bool:
    """Return whether the client's key may call at least one operation of a tool."""
    return any(map(target.may_call, tool.operations))


async def run_tool(session: Session, tool: Tool, arguments: JsonObject) -> types.CallToolResult:
    """Run a tool and return its result. Raises ToolError."""
    if not may_use(tool, session.any_target):
        session.note_lacking(_list_scopes(tool))
        needed = " or ".join(_list_scopes(tool))
        raise refuse(f"{tool.name} needs a key with the scope {needed}; use such a key")
    arguments = read_arguments(tool, arguments, takes_pipeline=session.takes_pipeline)
    pipeline = None
    if session.takes_pipeline:
        pipeline, arguments = take_pipeline(arguments)
    if session.timezone and TIMEZONE in tool.input_schema["properties"]:
        arguments = {TIMEZONE: session.timezone} | arguments
    value = await tool.run(await session.find_target(pipeline), arguments)
    text = orjson.dumps(value).decode() if tool.to_text is None else tool.to_text(value)
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], structured_content=value
    )


def _list_scopes(tool: Tool) -> list[str]:
    """Return the scopes of which a tool needs one."""
    scopes = [scope for name in tool.operations for scope in scopes_of(known_operation(name))]
    return list(dict.fromkeys(scopes))


@cache
def _describe_tool(tool: Tool, takes_pipeline: bool, is_required: bool) -> types.Tool:
    schema = tool.input_schema
    if takes_pipeline:
        schema = schema_with_pipeline(tool, is_required=is_required, pipeline=PIPELINE_SCHEMA)
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


def _with_pipelines(tool: types.Tool, pipelines: Sequence[PipelineName]) -> types.Tool:
    """Return a tool whose argument `pipeline` lists the pipelines that the client may use."""
    text = f"The uid or the name of a pipeline: {name_pipelines(pipelines)}."
    described = PIPELINE_SCHEMA | {"description": text}
    properties = tool.input_schema["properties"] | {PIPELINE: described}
    schema = tool.input_schema | {"properties": properties}
    return tool.model_copy(update={"input_schema": schema})
