"""GET /v1/pipelines/UID/messages/ENTRY: the trace of one message."""

from aiohttp import web

from memrelay.web.api.answers import json_response, refuse_unknown
from memrelay.web.auth.access import requires
from memrelay.web.openapi.route_docs import documented
from memrelay.web.openapi.shapes import MessageTrace
from memrelay.web.server.services import get_services
from memrelay.web.trace.trace import parse_entry, read_trace

routes = web.RouteTableDef()
TRACE_PATH = "/v1/pipelines/{uid}/messages/{entry}"


@routes.get(TRACE_PATH)
@documented(
    {
        200: "The messages, records and dead letter that the message led to.",
        404: "The pipeline does not exist.",
        503: "The bus does not answer, or the pipeline is overloaded.",
        504: "No worker answered in time.",
    },
    schemas={200: MessageTrace},
)
@requires("read")
async def show(request: web.Request) -> web.Response:
    """Trace one message: all messages, records and the dead letter that it led to."""
    refuse_unknown(request, ())
    served = await get_services(request).directory.find(request.match_info["uid"])
    trace = await read_trace(request, served, parse_entry(request.match_info["entry"]))
    return json_response(trace.as_json())
