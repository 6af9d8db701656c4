"""The forms of a path of a compatible API: with and without the prefix that names the pipeline,
each with an optional last slash.
"""

from collections.abc import Callable

from aiohttp import hdrs, web

from memrelay.web.auth.access import RouteHandler
from memrelay.web.server.error_dialects import PIPELINE_PREFIX

OPTIONAL_SLASH = ("", "/")


def serve(
    routes: web.RouteTableDef, method: str, path: str, ends: tuple[str, ...] = OPTIONAL_SLASH
) -> Callable[[RouteHandler], RouteHandler]:
    """Register a handler at each form of a path."""

    def declare(handler: RouteHandler) -> RouteHandler:
        for form in [prefix + path + end for prefix in ("", PIPELINE_PREFIX) for end in ends]:
            # GET also answers HEAD.
            register = routes.get(form) if method == hdrs.METH_GET else routes.route(method, form)
            register(handler)
        return handler

    return declare
