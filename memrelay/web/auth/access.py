"""Access declarations of routes. A route without a declaration rejects every request."""

from collections.abc import Awaitable, Callable, Hashable
from functools import wraps
from ipaddress import ip_address
from typing import TypeVar

from aiohttp import web
from aiohttp.typedefs import Handler

from memrelay.web.api.directory import Served
from memrelay.web.auth.authorizer import Caller
from memrelay.web.server.connection_limits import claim_connection
from memrelay.web.server.errors import NotAllowed
from memrelay.web.services import get_services

RouteHandler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Declared = TypeVar("Declared", bound=RouteHandler)
# Anyone may call the route.
OPEN = "open"
# The handler authenticates the caller itself, by a webhook's token or signature.
OWN = "own"
CALLER = web.RequestKey("caller", Caller)
# The handler attribute that holds the declaration. functools.wraps copies it.
_ATTRIBUTE = "memrelay_access"
_FOR_AGENTS = "memrelay_is_for_agents"
_FOR_ALL_PIPELINES = "memrelay_for_all_pipelines"


def requires(
    *scopes: str, is_for_agents: bool = False, for_all_pipelines: bool = False
) -> Callable[[RouteHandler], RouteHandler]:
    """Require a key with one of `scopes`, for the pipeline in the path if the path has `{uid}`.

    A handler with several scopes checks which of them its request needs. `is_for_agents`: callers
    with a JWT reach the route too. `for_all_pipelines`: the key must not be limited to some.
    """

    def declare(handler: RouteHandler) -> RouteHandler:
        @wraps(handler)
        async def guarded(request: web.Request) -> web.StreamResponse:
            caller = await get_services(request).authorizer.get_caller(request)
            set_caller(request, caller)
            caller.check_any(scopes, request.match_info.get("uid"))
            caller.check_route(is_for_agents=is_for_agents)
            if for_all_pipelines:
                caller.check_all_pipelines()
            return await handler(request)

        vars(guarded)[_FOR_AGENTS] = is_for_agents
        vars(guarded)[_FOR_ALL_PIPELINES] = for_all_pipelines
        return _declare(guarded, " or ".join(scopes))

    return declare


def open_to_all(handler: Declared) -> Declared:
    """Allow requests without a key."""
    return _declare(handler, OPEN)


def authenticates_itself(handler: Declared) -> Declared:
    """Leave authentication to the handler."""
    return _declare(handler, OWN)


def get_access(handler: object) -> str:
    """Return a route's declaration: a scope, OPEN, OWN, or "" if there is none."""
    return str(getattr(handler, _ATTRIBUTE, ""))


def is_reached_by_jwt(handler: object) -> bool:
    """Return whether callers with a JWT reach a route."""
    return bool(getattr(handler, _FOR_AGENTS, False))


def needs_all_pipelines(handler: object) -> bool:
    """Return whether only keys for all pipelines reach a route."""
    return bool(getattr(handler, _FOR_ALL_PIPELINES, False))


def _declare(handler: Declared, access: str) -> Declared:
    vars(handler)[_ATTRIBUTE] = access
    return handler


def set_caller(request: web.Request, caller: Caller) -> None:
    """Record the caller of a request, and count the connection as the caller's.

    Raises Unavailable if the caller has too many connections.
    """
    request[CALLER] = caller
    claim_connection(request, caller.account)


def get_caller(request: web.Request) -> Caller:
    """Return the caller of a route that requires a scope."""
    return request[CALLER]


async def list_visible(request: web.Request, *, refresh: bool = False) -> list[Served]:
    """Return the active pipelines that the caller may see, by name. Raises StoreBusy."""
    pipelines = await get_services(request).directory.list_pipelines(refresh=refresh)
    sees = get_caller(request).sees
    return [one for one in pipelines if sees(one.deployed.uid)]


async def identify_caller(request: web.Request) -> Hashable | None:
    """Return the account of a key or a JWT, else the client's address, or None for loopback.

    Invalid keys share the bucket of their address, so guessing keys is limited too. All programs
    on this machine share one address, so loopback is not limited.
    """
    caller = await get_services(request).authorizer.get_caller_or_anonymous(request)
    if caller.account:
        return caller.account
    remote = request.remote
    return None if remote is None or ip_address(remote.partition("%")[0]).is_loopback else remote


@web.middleware
async def refuse_undeclared(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Reject requests to a route without a declaration. aiohttp answers unknown paths."""
    match = request.match_info
    if match.http_exception is None and not get_access(match.handler):
        raise NotAllowed("this route declares no access rule, so nobody may call it")
    return await handler(request)
