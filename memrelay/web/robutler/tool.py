"""/api/tools/memory: the `memory` tool of agents, over HTTP."""

from aiohttp import web

from memrelay.memory.models.shared_stores.tool.arguments import is_read
from memrelay.web.api.answers import json_response, refuse_unknown
from memrelay.web.api.operations import read_object
from memrelay.web.api.path_forms import serve
from memrelay.web.auth.access import requires
from memrelay.web.auth.identity import refuse_vouched
from memrelay.web.openapi.route_docs import IDEMPOTENCY_HEADERS, documented
from memrelay.web.robutler import shapes
from memrelay.web.robutler.calls import IDENTITY, call, read_identity
from memrelay.web.robutler.errors import ROBUTLER
from memrelay.web.robutler.paths import TOOL
from memrelay.web.robutler.storage import IDENTITY_QUERY, WRITE_ERRORS
from memrelay.web.server.error_dialects import error_dialect

routes = web.RouteTableDef()


@serve(routes, "POST", TOOL)
@error_dialect(ROBUTLER)
@documented(
    {200: "The answer of the tool. An error is a value with `is_error`."} | WRITE_ERRORS,
    query=IDENTITY_QUERY
    | {"dialect": "robutler (the default), or anthropic for the tool memory_20250818."},
    query_schemas={"dialect": {"type": "string", "enum": ["robutler", "anthropic"]}},
    headers=IDEMPOTENCY_HEADERS,
    body="The arguments of the tool call.",
    body_schema=dict,
    schemas={200: shapes.ToolAnswer},
)
@requires("search", "read", "write", "delete", is_for_agents=True)
async def use_tool(request: web.Request) -> web.Response:
    """Carry out a call of the memory tool."""
    refuse_unknown(request, (*IDENTITY, "dialect"))
    arguments = await read_object(request)
    refuse_vouched(arguments)
    dialect = request.query.get("dialect") or "robutler"
    identity = read_identity(request, request.query)
    name = "memory_tool.read" if is_read(arguments, dialect) else "memory_tool.write"
    answer = await call(request, name, identity | {"arguments": arguments, "dialect": dialect})
    return json_response({"value": answer["value"], "is_error": answer["is_error"]})
