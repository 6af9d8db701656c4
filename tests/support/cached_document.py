"""Keeps the OpenAPI document and its reference for all web servers that are forked.

Making them is most of a web server's start, and they depend on one setting alone.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiohttp import web

from memrelay.web import app as server
from memrelay.web.services import SERVICES
from tests.support.routes import app_for


def cache_document() -> None:
    """Make the document as a web server does, and let the forks of this process use it."""
    for name, key in (("build_document", _read_wait), ("read_reference", id)):
        setattr(server, name, _keep(getattr(server, name), key))
    app_for(Path("nowhere"))


def _read_wait(app: web.Application) -> Any:
    return repr(app[SERVICES].options.max_wait_s)


def _keep(make: Callable[[Any], Any], key: Callable[[Any], Any]) -> Callable[[Any], Any]:
    kept: dict[Any, Any] = {}

    def make_once(source: Any) -> Any:
        if key(source) not in kept:
            kept[key(source)] = make(source)
        return kept[key(source)]

    return make_once
