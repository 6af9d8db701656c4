"""Pipelit's agent memory over its own REST paths."""

from aiohttp import web

from memrelay.web.models.pipelit import history, lists


def register(app: web.Application) -> None:
    """Add the routes of this API to the application."""
    for module in (lists, history):
        app.add_routes(module.routes)
