"""What each route asks of who calls it, declared beside the route; one that declares nothing is
refused."""

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import TypeVar

from aiohttp import web
from aiohttp.typedefs import Handler

from memrelay.web.auth.authorizer import Caller
from memrelay.web.server.errors import Forbidden
from memrelay.web.server.services import services_of

Asked = Callable[[web.Request], Awaitable[web.StreamResponse]]
Declared = TypeVar("Declared", bound=Asked)
OPEN, OWN = (
    "open",
    "own",
)  # everybody may; the handler itself looks who calls (a webhook's token or signature)
CALLER = web.RequestKey("caller", Caller)
_MARK = "memrelay_access"  # of a handler; functools.wraps hands it on


def needs(scope: str) -> Callable[[Asked], Asked]:
    """Only who has a key with that scope may call the route; in the pipeline of its path, where
    that has a `{uid}`."""

    def declare(handler: Asked) -> Asked:
        @wraps(handler)
        async def guarded(request: web.Request) -> web.StreamResponse:
            request[CALLER] = caller = await services_of(request).authoriser.caller(request)
            caller.check(scope, request.match_info.get("uid"))
            return await handler(request)

        return _marked(guarded, scope)

    return declare


def open_to_all(handler: Declared) -> Declared:
    """Everybody may call the route, without a key."""
    return _marked(handler, OPEN)


def guards_itself(handler: Declared) -> Declared:
    """The route looks itself who calls."""
    return _marked(handler, OWN)


def access_of(handler: object) -> str:
    """What a route asks: a scope, OPEN or OWN; "" where it declares nothing."""
    return str(getattr(handler, _MARK, ""))


def _marked(handler: Declared, access: str) -> Declared:
    vars(handler)[_MARK] = access
    return handler


def caller_of(request: web.Request) -> Caller:
    """Who calls a route that needs a scope."""
    return request[CALLER]


@web.middleware
async def refuse_undeclared(request: web.Request, handler: Handler) -> web.StreamResponse:
    """A route whose author forgot to say who may call it. A path that is none has aiohttp's own
    answer."""
    match = request.match_info
    if match.http_exception is None and not access_of(match.handler):
        raise Forbidden("this route does not say who may call it, so nobody may")
    return await handler(request)
