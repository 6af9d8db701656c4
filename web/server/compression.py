"""Answers above a size are sent as gzip to who takes it. Requests are never unpacked
(web/server/request_body.py)."""

import asyncio
import gzip

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

LEAST_BYTES = 1024
LONG_BYTES = 128 << 10  # from here on in a thread: it takes some milliseconds
LEVEL = 5
TEXTS = (
    "application/json",
    "application/problem+json",
    "text/html",
    "text/css",
    "text/javascript",
    "text/plain",
    "image/svg+xml",
)


@web.middleware
async def compress(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Packs the body of an answer, where that is worth while."""
    response = await handler(request)
    if not isinstance(response, web.Response) or response.prepared:
        return response
    body = response.body
    if not isinstance(body, bytes) or len(body) < LEAST_BYTES or response.content_type not in TEXTS:
        return response
    response.headers[hdrs.VARY] = hdrs.ACCEPT_ENCODING
    if hdrs.CONTENT_ENCODING not in response.headers and _takes_gzip(
        request.headers.get(hdrs.ACCEPT_ENCODING, "")
    ):
        packed = await asyncio.to_thread(_pack, body) if len(body) > LONG_BYTES else _pack(body)
        response.headers[hdrs.CONTENT_ENCODING] = "gzip"
        response.body = packed
    return response


def _pack(body: bytes) -> bytes:
    return gzip.compress(body, LEVEL, mtime=0)


def _takes_gzip(accepted: str) -> bool:
    """Whether a list of encodings has gzip (or *), and not with the weight 0 (RFC 9110, 12.5.3)."""
    weights = {}
    for one in accepted.lower().split(","):
        name, _, weight = one.partition(";")
        weights[name.strip()] = (
            weight.replace(" ", "").removeprefix("q=").strip("0.") != "" or not weight.strip()
        )
    return weights.get("gzip", weights.get("x-gzip", weights.get("*", False)))
