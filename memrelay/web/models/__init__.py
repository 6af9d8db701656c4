"""REST APIs of other memory systems, one folder each. A folder registers its own routes."""

from importlib import import_module
from pkgutil import iter_modules

from aiohttp import web


def register_models(app: web.Application) -> None:
    """Let each folder add its routes to the application, in the order of their names."""
    for module in iter_modules(__path__):
        if module.ispkg:
            import_module(f"{__name__}.{module.name}").register(app)
