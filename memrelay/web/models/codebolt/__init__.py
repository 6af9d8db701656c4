"""Codebolt's persistent memory, its sources and context assembly over their own REST paths."""

from aiohttp import web

from memrelay.web.models.codebolt import assembly, events, graph, recipes, sources


def register(app: web.Application) -> None:
    """Add the routes and the live events of this API to the application."""
    for module in (recipes, sources, graph, assembly, events):
        app.add_routes(module.routes)
    app[events.FEEDS] = {}
    app.cleanup_ctx.append(events.publish_forever)
