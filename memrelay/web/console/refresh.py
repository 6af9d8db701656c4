"""The parts of a page that its script fetches again once a second (static/refresh.js).

A part whose pipeline has not changed is answered with 304, without a call of an operation.
"""

from collections.abc import Awaitable, Callable
from hashlib import sha256

from aiohttp import hdrs, web

from memrelay.web.api.answers import is_unchanged
from memrelay.web.api.directory import Served
from memrelay.web.auth.access import get_caller
from memrelay.web.console.frame import HEADERS
from memrelay.web.console.shared_reads import STATES
from memrelay.web.server.errors import Unavailable


async def answer_refresh(
    request: web.Request,
    served: Served,
    make: Callable[[], Awaitable[web.Response]],
    more: object = None,
) -> web.Response:
    """Return a part of a page as `make` renders it, or 304 if its pipeline has not changed.

    `more` is a further state on which the part depends.

    A request with `Cache-Control: no-cache`, which follows a change of the page itself, reads the
    state again.
    """
    wants_new = "no-cache" in request.headers.get(hdrs.CACHE_CONTROL, "")
    state = await request.config_dict[STATES].get(served, refresh=wants_new)
    return await answer_changed(request, (state, more), make)


async def answer_changed(
    request: web.Request, state: object, make: Callable[[], Awaitable[web.Response]]
) -> web.Response:
    """Return a part of a page as `make` renders it, or 304 if its state has not changed."""
    tag = make_tag(request, state)
    return _not_modified(tag) if is_unchanged(request, tag) else _with_tag(tag, await make())


def make_tag(request: web.Request, state: object) -> str:
    """Return the ETag of a part: it depends on a state, the address and the caller's rights."""
    caller = get_caller(request)
    rights = sorted(caller.scopes), sorted(caller.pipelines)
    return sha256(repr((state, request.path_qs, rights)).encode()).hexdigest()[:16]


def refuse_fault(fault: str) -> None:
    """Keep the content of an open page if there is a fault, which the page then shows.

    Raises Unavailable.
    """
    if fault:
        raise Unavailable(fault, notice=fault)


def answer_tagged(
    request: web.Request, state: object, make: Callable[[], web.Response]
) -> web.Response:
    """Return a part of a page that depends only on a state, or 304 if the client has it."""
    tag = make_tag(request, state)
    return _not_modified(tag) if is_unchanged(request, tag) else _with_tag(tag, make())


def _not_modified(tag: str) -> web.Response:
    return web.Response(status=304, headers=HEADERS | {hdrs.ETAG: f'"{tag}"'})


def _with_tag(tag: str, response: web.Response) -> web.Response:
    response.headers[hdrs.ETAG] = f'"{tag}"'
    return response
