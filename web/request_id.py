"""X-Request-Id: the caller's where it is harmless, else made; it stands on every answer, and in the
log of a fault."""

import re
from uuid import uuid4

from aiohttp import web
from multidict import istr

HEADER = istr("X-Request-Id")
HARMLESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/+=-]{0,127}")
_ID = web.RequestKey("request_id", str)


def id_of(request: web.BaseRequest) -> str:
    """The request's id, the same whenever it is asked for."""
    if _ID not in request:
        given = request.headers.get(HEADER, "")
        request[_ID] = given if HARMLESS.fullmatch(given) else uuid4().hex
    return request[_ID]


async def tell_id(request: web.Request, response: web.StreamResponse) -> None:
    """aiohttp's call, before the head of any answer leaves."""
    response.headers[HEADER] = id_of(request)
