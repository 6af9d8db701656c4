"""The pages of the console, one file each, and their routes."""

from collections.abc import Sequence
from importlib import import_module
from pkgutil import iter_modules

from aiohttp import web

from memrelay.web.console.page import Page

_MODULES = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
ALL: Sequence[Page] = [module.PAGE for module in _MODULES]
ROUTES: Sequence[web.RouteTableDef] = [module.routes for module in _MODULES]
