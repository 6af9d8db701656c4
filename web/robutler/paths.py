"""Robutler's paths: with and without the prefix that names the pipeline; last slash optional."""

from collections.abc import Callable
from urllib.parse import unquote

from aiohttp import hdrs, web

from memrelay.web.auth.access import RouteHandler
from memrelay.web.server.error_dialects import PIPELINE_PREFIX
from memrelay.web.server.errors import BadRequest

MEMORY = "/api/storage/memory"
# A key may contain slashes and line breaks.
ENTRY = MEMORY + "/{key:(?s:.+)}"
KV = "/api/kv"
TOOL = "/api/tools/memory"


def serve(
    routes: web.RouteTableDef, method: str, path: str
) -> Callable[[RouteHandler], RouteHandler]:
    """Register a handler at each form of a path."""
    ends = ("",) if path == ENTRY else ("", "/")

    def declare(handler: RouteHandler) -> RouteHandler:
        for form in [prefix + path + end for prefix in ("", PIPELINE_PREFIX) for end in ends]:
            register = routes.get(form) if method == hdrs.METH_GET else routes.route(method, form)
            register(handler)
        return handler

    return declare


def read_key(request: web.Request) -> str:
    """Return the key in the path, decoded once: `a%2Fb` is `a/b`, and `%2E%2E` is `..`.

    aiohttp's own decoding cannot tell an invalid escape from a literal one. Raises BadRequest.
    """
    prefix = PIPELINE_PREFIX if "uid" in request.match_info else ""
    slashes = (prefix + MEMORY).count("/") + 1
    raw = request.rel_url.raw_path.split("/", slashes)[slashes]
    try:
        return unquote(raw, errors="strict")
    except UnicodeDecodeError as error:
        raise BadRequest("the key in the path is not UTF-8; encode it with percent signs") from (
            error
        )
