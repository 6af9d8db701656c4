"""Named memories with SOAT's paths and JSON shapes, on top of the same operations."""

from aiohttp import web

from memrelay.web.models.soat import entries, knowledge, memories, memory_entries


def register(app: web.Application) -> None:
    """Add the routes of this API to the application."""
    for module in (memories, entries, memory_entries, knowledge):
        app.add_routes(module.routes)
