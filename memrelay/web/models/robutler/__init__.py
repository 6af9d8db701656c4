"""Robutler's memory over its own REST paths."""

from aiohttp import web

from memrelay.web.models.robutler import kv, storage


def register(app: web.Application) -> None:
    """Add the routes of this API to the application."""
    for module in (storage, kv):
        app.add_routes(module.routes)
