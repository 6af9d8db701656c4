"""The span of each MCP request. Only a server that exports traces loads this module.

The SDK's own spans would have the texts of exceptions.
"""

from collections.abc import Mapping
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp_types import CallToolResult
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind

from memrelay.tracing.context import FIELD, open_span, set_error, to_context

CALL = "tools/call"
# Characters of a tool's name, which a client may have invented.
MAX_NAME = 100


async def trace_request(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Answer a request in a span that continues the trace in its `_meta`, else that of HTTP."""
    attributes, name = {"mcp.method.name": ctx.method}, ctx.method
    tool = ctx.params.get("name") if ctx.params else None
    if ctx.method == CALL and isinstance(tool, str):
        tool = tool[:MAX_NAME]
        name = f"{CALL} {tool}"
        attributes |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool}
    with open_span(name, SpanKind.SERVER, attributes, _find_parent(ctx.meta)) as span:
        result = await call_next(ctx)
        if isinstance(result, CallToolResult) and result.is_error:
            set_error(span, "tool_error")
    return result


def _find_parent(meta: Mapping[str, Any] | None) -> Context | None:
    """Return the trace context in `_meta`, None if there is no valid one."""
    given = (meta or {}).get(FIELD)
    parent = to_context(given) if isinstance(given, str) else None
    return parent if trace.get_current_span(parent).get_span_context().is_valid else None
