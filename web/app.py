"""The application: which paths there are, and what every request passes on its way."""

from functools import partial
from ipaddress import ip_address

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from web import dead_letters, documents, health, messages, operations, pipelines, versions, webhooks
from web.access import refuse_undeclared
from web.compression import compress
from web.console import login, pages
from web.console.frame import show_lost
from web.door import BUSY, door_of
from web.errors import tell_expectation, tell_problems
from web.eviction import evicting
from web.glance import Glance
from web.guard import LOOPBACK, guard
from web.live import LISTENERS, close_listeners
from web.openapi import describe
from web.parts import PARTS, Parts
from web.rate import key_or_address, limit_rate
from web.request_id import tell_id
from web.soat import entries, knowledge, memories, memory_entries
from web.soat.errors import speak_soat
from web.status import read_status
from web.traffic import Traffic


def make_app(parts: Parts) -> web.Application:
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
        guard(hosts),
        refuse_undeclared,
        show_lost,
    ]
    app = web.Application(middlewares=passed, client_max_size=options.message_bytes)
    app[PARTS], app[LISTENERS] = parts, {}
    app[pages.GLANCE] = Glance(partial(read_status, parts.catalog, parts.line))
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
