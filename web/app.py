"""The application: which paths there are, and what every request passes on its way."""
from ipaddress import ip_address

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from web import dead_letters, health, messages, pipelines, versions, webhooks
from web.console import pages
from web.console.glance import GLANCE, Glance
from web.errors import tell_problems
from web.guard import LOOPBACK, guard
from web.live import LISTENERS, close_listeners
from web.parts import PARTS, Parts
from web.traffic import Traffic


def make_app(parts: Parts) -> web.Application:
    """The application with all its routes."""
    options = parts.options
    hosts = frozenset(name.lower() for name in (*LOOPBACK, options.host, *options.hosts))
    app = web.Application(middlewares=[_count(parts.traffic), tell_problems, guard(hosts)],
                          client_max_size=options.message_bytes)
    app[PARTS], app[LISTENERS], app[GLANCE] = parts, set(), Glance(parts.catalog, parts.line)
    for table in (health.routes, pipelines.routes, versions.routes, messages.routes, webhooks.routes, dead_letters.routes,
                  pages.routes):
        app.add_routes(table)
    app.on_shutdown.append(close_listeners)
    return app


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens there."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _count(traffic: Traffic) -> Middleware:
    answers = traffic.answers

    @web.middleware
    async def count(request: web.Request, handler: Handler) -> web.StreamResponse:
        response = await handler(request)
        answers[response.status] += 1
        return response

    return count
