"""The pages of the console, one file for each subject, and their routes."""

from collections.abc import Sequence
from importlib import import_module
from pkgutil import iter_modules

from memrelay.web.console.frame import Page, PageRoutes

_MODULES = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
ROUTES: Sequence[PageRoutes] = [
    value for module in _MODULES for value in vars(module).values() if isinstance(value, PageRoutes)
]
ALL: Sequence[Page] = [routes.declared for routes in ROUTES]
