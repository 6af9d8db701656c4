"""The application: its routes and its middlewares."""

import re
from functools import partial
from ipaddress import ip_address

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from memrelay.web.api import dead_letters, health, keys, messages, operations, pipelines, webhooks
from memrelay.web.api.status import read_status
from memrelay.web.auth.access import refuse_undeclared
from memrelay.web.auth.revocation import OPEN_REQUESTS, watch_callers
from memrelay.web.codebolt import assembly, events, graph, recipes, sources
from memrelay.web.codebolt.live_events import publish_forever
from memrelay.web.console import assets, login, pages
from memrelay.web.console.frame import show_missing_page
from memrelay.web.console.graph_cache import ACTIVITIES, GRAPHS
from memrelay.web.console.page import PAGES, index_pages
from memrelay.web.console.shared_reads import STATES, STATUS, PipelineStates
from memrelay.web.mcp.transports import routes as mcp
from memrelay.web.mcp.transports.bridge import EXCHANGES, end_exchanges
from memrelay.web.mcp.transports.loading import APPLICATIONS, LazyApplications, close_applications
from memrelay.web.mcp.updates.change_reader import Bus, ChangeReaders
from memrelay.web.openapi import pages as documents
from memrelay.web.openapi.document import build_document
from memrelay.web.openapi.reference_reader import read_reference
from memrelay.web.pipelit import history, lists
from memrelay.web.robutler import kv, storage, tool
from memrelay.web.server.browser_guard import (
    LOOPBACK,
    add_security_headers,
    refuse_foreign_browsers,
)
from memrelay.web.server.cached_read import CachedRead
from memrelay.web.server.connection_limits import BUSY, Traffic, get_connection
from memrelay.web.server.error_dialects import DIALECTS, convert_errors, list_dialects
from memrelay.web.server.errors import (
    add_request_id,
    explain_failed_expectation,
    handle_errors,
)
from memrelay.web.server.listener import LISTENERS, close_listeners
from memrelay.web.server.rate_limit import identify_caller, limit_rate
from memrelay.web.server.services import SERVICES, Services, WebOptions
from memrelay.web.soat import entries, knowledge, memories, memory_entries
from memrelay.web.trace import routes as trace

ROUTE_MODULES = (
    health,
    pipelines,
    messages,
    webhooks,
    dead_letters,
    trace,
    keys,
    assets,
    login,
    documents,
    memories,
    entries,
    memory_entries,
    knowledge,
    storage,
    kv,
    tool,
    lists,
    history,
    recipes,
    sources,
    graph,
    assembly,
    events,
    mcp,
)
# The shortest body worth compressing.
MIN_COMPRESSED_BYTES = 1024
COMPRESSED_TYPES = frozenset(
    {
        "application/json",
        "application/problem+json",
        "text/html",
        "text/css",
        "text/javascript",
        "text/plain",
        "image/svg+xml",
    }
)
# An Accept-Encoding item that allows gzip: its weight is absent or above 0.
ACCEPTS_GZIP = re.compile(r"(?:^|[,\s])gzip\s*(?:,|$|;\s*q=(?:1|0?\.0*[1-9]))", re.I)


def make_app(services: Services) -> web.Application:
    """Create the application."""
    options = services.options
    app = web.Application(
        middlewares=_middlewares(services, options), client_max_size=options.message_bytes
    )
    app[SERVICES], app[LISTENERS], app[OPEN_REQUESTS] = services, set(), {}
    app[GRAPHS], app[ACTIVITIES], app[events.FEEDS] = {}, {}, {}
    app[EXCHANGES], app[APPLICATIONS] = set(), LazyApplications()
    app[mcp.READERS] = ChangeReaders(
        Bus(services.requester, services.channels, services.options.call_timeout_s)
    )
    app[STATUS] = CachedRead(partial(read_status, services.catalog, services.line))
    app[STATES] = PipelineStates(services.line, services.catalog)
    app[PAGES] = index_pages([*pages.ALL, documents.PAGE])
    app.add_routes(operations.make_routes())
    for routes in (*(module.routes for module in ROUTE_MODULES), *pages.ROUTES):
        app.add_routes(routes)
    app[DIALECTS] = list_dialects(app)
    app[documents.DOCUMENT] = build_document(app)
    app[documents.REFERENCE] = read_reference(app[documents.DOCUMENT])
    app.cleanup_ctx.extend((watch_callers, publish_forever))
    app.on_response_prepare.extend(
        (add_request_id, add_security_headers, explain_failed_expectation)
    )
    app.on_shutdown.extend((close_listeners, mcp.end_streams, end_exchanges))
    app.on_cleanup.append(close_applications)
    return app


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server that listens on `host`."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _middlewares(services: Services, options: WebOptions) -> list[Middleware]:
    """Return the middlewares, outermost first."""
    hosts = frozenset(name.lower() for name in (*LOOPBACK, options.host, *options.hosts))
    rate_limit = [limit_rate(options.rate, options.burst, identify_caller)] if options.rate else []
    return [
        _count_answers(services.traffic),
        compress,
        convert_errors,
        handle_errors,
        *rate_limit,
        refuse_foreign_browsers(hosts),
        refuse_undeclared,
        show_missing_page,
    ]


def _count_answers(traffic: Traffic) -> Middleware:
    """Return a middleware that counts responses and marks the connection as busy."""
    answers = traffic.answers

    @web.middleware
    async def count(request: web.Request, handler: Handler) -> web.StreamResponse:
        connection = get_connection(request)
        if connection is not None:
            connection.due = BUSY
        try:
            response = await handler(request)
        finally:
            if connection is not None:
                connection.due, connection.has_served = None, True
        answers[response.status] += 1
        return response

    return count


@web.middleware
async def compress(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Compress long text responses with gzip. Request bodies are never decompressed."""
    response = await handler(request)
    if not isinstance(response, web.Response) or response.prepared:
        return response
    body = response.body
    is_long = isinstance(body, bytes) and len(body) >= MIN_COMPRESSED_BYTES
    if is_long and response.content_type in COMPRESSED_TYPES:
        varies = response.headers.get(hdrs.VARY)
        response.headers[hdrs.VARY] = ", ".join(filter(None, (varies, hdrs.ACCEPT_ENCODING)))
        if ACCEPTS_GZIP.search(request.headers.get(hdrs.ACCEPT_ENCODING, "")):
            response.enable_compression(web.ContentCoding.gzip)
    return response
