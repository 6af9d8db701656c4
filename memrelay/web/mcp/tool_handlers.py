"""Lists and calls the tools of a toolset, after a check of the arguments.

It loads the tools, and so the operations they use.
"""

from functools import cache
from typing import Any

import mcp_types as types
import orjson
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from memrelay.memory.operations import known_operation
from memrelay.web.api.operation_routes import scopes_of
from memrelay.web.mcp.session import TIMEZONE, Session, get_session
from memrelay.web.mcp.tool import JsonObject, Target, Tool, ToolError, refuse
from memrelay.web.mcp.tools.files import FILE_TOOLS
from memrelay.web.mcp.tools.graph import GRAPH_TOOLS
from memrelay.web.mcp.tools.memory_toolset import MEMORY_TOOLS
from memrelay.web.mcp.toolsets import FILES, GRAPH, MEMORY

Request = ServerRequestContext[Any, Any]
PIPELINE = "pipeline"
PIPELINE_SCHEMA = {"type": "string", "description": "The uid of the pipeline."}
# Characters of a value that an error repeats.
MAX_RULE_CHARACTERS = 300
TOOLSETS: dict[str, tuple[Tool, ...]] = {
    MEMORY: MEMORY_TOOLS,
    GRAPH: GRAPH_TOOLS,
    FILES: FILE_TOOLS,
}


def schema_with_pipeline(tool: Tool, *, is_required: bool) -> JsonObject:
    """Return the input schema with the argument `pipeline`."""
    schema = tool.input_schema
    fields = {PIPELINE: PIPELINE_SCHEMA, **schema.get("properties", {})}
    required = list(schema.get("required", ()))
    return {
        **schema,
        "properties": fields,
        "required": [PIPELINE, *required] if is_required else required,
    }


def check_arguments(tool: Tool, arguments: JsonObject, *, takes_pipeline: bool) -> None:
    """Raise ToolError with every fault of the arguments."""
    validator = _validator(tool, takes_pipeline)
    if validator.is_valid(arguments):
        return
    faults = sorted(validator.iter_errors(arguments), key=lambda fault: fault.json_path)
    raise refuse(f"the arguments of {tool.name} break its schema:", map(_describe_fault, faults))


def take_pipeline(arguments: JsonObject) -> tuple[str | None, JsonObject]:
    """Return the argument `pipeline`, None if it is absent, and the other arguments."""
    others = {name: value for name, value in arguments.items() if name != PIPELINE}
    return arguments.get(PIPELINE), others


@cache
def _validator(tool: Tool, takes_pipeline: bool) -> Any:
    schema = schema_with_pipeline(tool, is_required=False) if takes_pipeline else tool.input_schema
    return Draft202012Validator(schema)


def _describe_fault(fault: ValidationError) -> str:
    pointer = "".join(f"/{_escape(str(part))}" for part in fault.absolute_path)
    rule = fault.message
    if len(rule) > MAX_RULE_CHARACTERS:
        rule = f"the value breaks the rule {fault.validator}: {fault.validator_value!r}"
    return f"{pointer or '(the arguments)'}: {rule[:MAX_RULE_CHARACTERS]}"


def _escape(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1")


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
        session = get_session(request)
        target, takes_pipeline = session.any_target, session.takes_pipeline
        is_required = await session.needs_pipeline()
        shown = [
            _describe_tool(tool, takes_pipeline, is_required)
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
        scopes = [scope for name in tool.operations for scope in scopes_of(known_operation(name))]
        needed = " or ".join(dict.fromkeys(scopes))
        raise refuse(f"{tool.name} needs a key with the scope {needed}; use such a key")
    check_arguments(tool, arguments, takes_pipeline=session.takes_pipeline)
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


@cache
def _describe_tool(tool: Tool, takes_pipeline: bool, is_required: bool) -> types.Tool:
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
