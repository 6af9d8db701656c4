"""The application: which paths there are, and what every request passes on its way."""

from functools import partial
from ipaddress import ip_address

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from memrelay.web.api import dead_letters, health, messages, operations, pipelines, webhooks
from memrelay.web.api import pipelines as versions
from memrelay.web.api.live import LISTENERS, close_listeners, evicting
from memrelay.web.api.status import read_status
from memrelay.web.auth.access import refuse_undeclared
from memrelay.web.console import login, pages
from memrelay.web.console.frame import show_lost
from memrelay.web.openapi import pages as documents
from memrelay.web.openapi.document import describe
from memrelay.web.server.browser_guard import LOOPBACK, refuse_foreign_browsers
from memrelay.web.server.cached_read import CachedRead
from memrelay.web.server.compression import compress
from memrelay.web.server.connection_limits import BUSY, Traffic, door_of
from memrelay.web.server.errors import tell_expectation, tell_id, tell_problems
from memrelay.web.server.rate_limit import key_or_address, limit_rate
from memrelay.web.server.services import PARTS, Services
from memrelay.web.soat import entries, knowledge, memories, memory_entries
from memrelay.web.soat.errors import speak_soat


def make_app(parts: Services) -> web.Application:
    """The application with all its routes."""
    options = parts.options
    hosts = frozenset(name.lower() for name in (*LOOPBACK, options.host, *options.hosts))
    limited = [limit_rate(options.rate, options.burst, key_or_address)] if options.rate else []
    passed = [
        _attend(parts.traffic),
        compress,
        speak_soat,
        tell_problems,
        *limited,
        refuse_foreign_browsers(hosts),
        refuse_undeclared,
        show_lost,
    ]
    app = web.Application(middlewares=passed, client_max_size=options.message_bytes)
    app[PARTS], app[LISTENERS] = parts, {}
    app[pages.GLANCE] = CachedRead(partial(read_status, parts.catalog, parts.line))
    app.add_routes(operations.routes())
    for table in (
        health.routes,
        pipelines.routes,
        versions.routes,
        messages.routes,
        webhooks.routes,
        dead_letters.routes,
        login.routes,
        pages.routes,
        documents.routes,
        memories.routes,
        entries.routes,
        memory_entries.routes,
        knowledge.routes,
    ):
        app.add_routes(table)
    app[documents.DOCUMENT] = describe(app)
    app.cleanup_ctx.append(evicting)
    app.on_response_prepare.extend((tell_id, tell_expectation))
    app.on_shutdown.append(close_listeners)
    return app


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens there."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _attend(traffic: Traffic) -> Middleware:
    """Counts the answers, and tells the door while a request is being worked on."""
    answers = traffic.answers

    @web.middleware
    async def attend(request: web.Request, handler: Handler) -> web.StreamResponse:
        door = door_of(request)
        if door is not None:
            door.due = BUSY
        try:
            response = await handler(request)
        finally:
            if door is not None:
                door.due = None
        answers[response.status] += 1
        return response

    return attend
