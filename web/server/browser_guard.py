"""Keeps web pages of other origins out of a local server: checks Host and Origin, and what a
browser may send.

A page on the internet can make the user's browser send requests to a server on loopback: with a
name of its own that resolves
to 127.0.0.1 (DNS rebinding), or with a form or a script. The first is told by Host, the second by
Origin; and a request that
needs no leave of the browser's (a form's) cannot carry JSON. What it may not read it may still
embed, as an image, an object or
a frame, and see whether that was there: Fetch Metadata tells, and a link that is followed is all
that is let through.
"""

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware
from multidict import istr

from memrelay.web.server.errors import BadRequest, Forbidden, Problem, WrongHost, WrongType

LOOPBACK = ("localhost", "127.0.0.1", "::1")
FORMS = ("/login", "/logout")  # what a page of ours sends as a form
SAFE = (hdrs.METH_GET, hdrs.METH_HEAD, hdrs.METH_OPTIONS)
# What a browser says of where a request comes from, and of what it is to become (W3C Fetch
# Metadata).
FETCH_SITE, FETCH_MODE, FETCH_DEST = (
    istr("Sec-Fetch-Site"),
    istr("Sec-Fetch-Mode"),
    istr("Sec-Fetch-Dest"),
)
OWN_SITES = (None, "same-origin", "none")


def refuse_foreign_browsers(hosts: frozenset[str]) -> Middleware:
    """The middleware; `hosts` are the names, without ports, by which this server may be called."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        headers = request.headers
        host = headers.get(hdrs.HOST, "")
        if name_of(host) not in hosts:
            raise _refused(host)
        if request.method not in SAFE or hdrs.UPGRADE in headers:
            _check_origin(request, host)
        elif headers.get(FETCH_SITE) not in OWN_SITES:
            _check_followed(request)
        return await handler(request)

    return check


def _refused(host: str) -> Problem:
    """A name that somebody else made resolve to this machine is none of this server's."""
    if not host:
        return BadRequest("the request has no Host header")
    return WrongHost(
        f"this server is not {name_of(host)[:100]!r}; add the name to web.hosts if it is to be"
    )


def _check_origin(request: web.Request, host: str) -> None:
    """What changes something, or listens: not from another page, and from a browser only what a
    form cannot send."""
    headers = request.headers
    origin, site = headers.get(hdrs.ORIGIN), headers.get(FETCH_SITE)
    if origin is None and site is None and hdrs.REFERER not in headers:
        return  # no browser
    if origin is not None and origin.partition("://")[2] != host:
        raise Forbidden(f"a page of {origin[:100]} may not do this; only pages of this server may")
    if site not in OWN_SITES:
        raise Forbidden("a page of another site may not do this; only pages of this server may")
    is_json = request.content_type == "application/json"
    if origin is not None and request.path in FORMS:
        return  # the page's own form, as its origin says
    if request.method not in SAFE and not is_json and hdrs.AUTHORIZATION not in headers:
        raise WrongType(
            "from a browser what changes something needs Content-Type: application/json"
        )


def _check_followed(request: web.Request) -> None:
    """What is looked at from another site: by who follows a link to it, in a window of its own.
    Raises Forbidden."""
    if (request.headers.get(FETCH_MODE), request.headers.get(FETCH_DEST)) != (
        "navigate",
        "document",
    ):
        raise Forbidden(
            "a page of another site may not fetch or embed this; it may have a link to it"
        )


def name_of(host: str) -> str:
    """The name in a Host header, in lower case: without port, and without the brackets of an IPv6
    address."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()
