"""The server span of each HTTP request. Only a server that exports traces loads this module."""

from aiohttp import web
from aiohttp.typedefs import Handler
from opentelemetry.trace import SpanKind

from memrelay.tracing.context import FIELD, open_span, set_error, to_context

# Requests of monitors, which are frequent and lead to nothing.
PROBES = frozenset({"/live", "/ready", "/healthz", "/metrics"})
STATUS = "http.response.status_code"
SERVER_ERRORS = 500


@web.middleware
async def trace_requests(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Handle a request in a span that continues the trace of its caller.

    The span has the template of the route. It has neither the path nor a header or the query,
    which may contain secrets.
    """
    resource = request.match_info.route.resource
    route = resource.canonical if resource is not None else ""
    if route in PROBES:
        return await handler(request)
    attributes = {"http.request.method": request.method, "url.scheme": request.scheme}
    if route:
        attributes["http.route"] = route
    name = f"{request.method} {route}".rstrip()
    parent = to_context(request.headers.get(FIELD, ""))
    with open_span(name, SpanKind.SERVER, attributes, parent) as span:
        response = await handler(request)
        span.set_attribute(STATUS, response.status)
        if response.status >= SERVER_ERRORS:
            set_error(span, str(response.status))
    return response
