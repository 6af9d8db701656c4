"""Protection against hostile web pages: checks Host, Origin, and the Fetch Metadata headers.

A web page can make its visitor's browser send requests to a server on loopback:

- A host name of the attacker resolves to 127.0.0.1 (DNS rebinding). The Host check rejects it.
- A form or a script sends a request. The Origin check rejects it. A form cannot send JSON, so a
  browser must send JSON to change anything.
- A page embeds a resource as an image, object, or frame, to learn whether it exists. The Fetch
  Metadata check allows only a followed link.
- A page opens a window and looks at its state, to learn whether a page exists. All responses,
  errors included, have the same security headers.
"""

from collections.abc import Callable
from urllib.parse import urlsplit

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware
from multidict import istr

from memrelay.web.server.errors import (
    BadRequest,
    ForbiddenOrigin,
    Problem,
    UnsupportedMediaType,
    WrongHost,
)
from memrelay.web.server.forwarded import parse_address
from memrelay.web.server.options import OPTIONS, WebOptions

LOOPBACK = ("localhost", "127.0.0.1", "::1")
# Paths to which the console's own pages send forms.
FORM_PATHS = ("/login", "/logout", "/oauth/consent")
# Paths that orchestrators and load balancers probe, often by the address of the server.
PROBE_PATHS = ("/live", "/ready", "/healthz")
DEFAULT_PORTS = {"http": ":80", "https": ":443"}
SAFE_METHODS = (hdrs.METH_GET, hdrs.METH_HEAD, hdrs.METH_OPTIONS)
# W3C Fetch Metadata: the origin of a request and the use of its response.
FETCH_SITE = istr("Sec-Fetch-Site")
FETCH_MODE = istr("Sec-Fetch-Mode")
FETCH_DEST = istr("Sec-Fetch-Dest")
SAME_SITE = (None, "same-origin", "none")
CONTENT_SECURITY_POLICY = istr("Content-Security-Policy")
SECURITY_HEADERS = {
    CONTENT_SECURITY_POLICY: "default-src 'self'; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'",
    istr("X-Content-Type-Options"): "nosniff",
    # With no-referrer, a browser may send `Origin: null` to this server.
    istr("Referrer-Policy"): "same-origin",
    istr("Cross-Origin-Opener-Policy"): "same-origin",
}


def refuse_foreign_browsers(options: WebOptions, requires_key: Callable[[], bool]) -> Middleware:
    """Return the middleware. It accepts the configured host names and those of loopback.

    The name in `public_url` is accepted only while callers need a key: otherwise a tunnel to this
    machine would let any caller in.
    """
    public = urlsplit(options.public_url)
    names = (*LOOPBACK, options.host, *options.hosts)
    hosts = frozenset(map(_normalize_host_name, names))
    public_host = _normalize_host_name(public.hostname or "")
    port = DEFAULT_PORTS.get(public.scheme, "")
    own_origin = f"{public.scheme}://{public.netloc.lower().removesuffix(port)}"

    def is_accepted(name: str) -> bool:
        return name in hosts or (name == public_host != "" and requires_key())

    @web.middleware
    async def check_browser(request: web.Request, handler: Handler) -> web.StreamResponse:
        headers = request.headers
        host = headers.get(hdrs.HOST, "")
        name = parse_host_name(host)
        if name not in hosts and not is_accepted(_normalize_host_name(name)):
            _check_probe(request, host)
        if request.method not in SAFE_METHODS or hdrs.UPGRADE in headers:
            _check_origin(request, host, own_origin)
        elif headers.get(FETCH_SITE) not in SAME_SITE:
            _check_navigation(request)
        return await handler(request)

    return check_browser


async def add_security_headers(_: web.Request, response: web.StreamResponse) -> None:
    """Set the security headers on every response (aiohttp's `on_response_prepare` signal)."""
    policy = response.headers.get(CONTENT_SECURITY_POLICY)
    response.headers.update(SECURITY_HEADERS)
    if policy is not None:  # a handshake of a webhook has a stricter one
        response.headers[CONTENT_SECURITY_POLICY] = policy


def _check_probe(request: web.Request, host: str) -> None:
    """Allow a probe by address. DNS rebinding needs a name. Raises BadRequest and WrongHost.

    No probe uses 0.0.0.0, by which pages of other sites can reach a server on loopback.
    """
    path = request.path.removeprefix(request.app[OPTIONS].base_path)
    is_probe = request.method in SAFE_METHODS and path in PROBE_PATHS
    address = parse_address(host)
    if not is_probe or address is None or address.is_unspecified:
        raise _host_error(host)


def _host_error(host: str) -> Problem:
    if not host:
        return BadRequest("the Host header is missing")
    return WrongHost(
        f"the host name {parse_host_name(host)[:100]!r} is not served here; add it to web.hosts "
        "to accept it"
    )


def _check_origin(request: web.Request, host: str, own_origin: str) -> None:
    """Check a request that changes data or opens a WebSocket. Clients other than browsers pass."""
    headers = request.headers
    origin, site = headers.get(hdrs.ORIGIN), headers.get(FETCH_SITE)
    if origin is None and site is None and hdrs.REFERER not in headers:
        return
    if origin is not None and not (origin == own_origin or _is_origin_of(origin, host)):
        raise ForbiddenOrigin(
            f"a page of {origin[:100]} sent this request; only this server's pages may"
        )
    if site not in SAME_SITE:
        raise ForbiddenOrigin("a page of another site sent this request; only this server's may")
    path = request.path.removeprefix(request.app[OPTIONS].base_path)
    if origin is not None and path in FORM_PATHS:
        return
    is_json = request.content_type == "application/json"
    if request.method not in SAFE_METHODS and not is_json and hdrs.AUTHORIZATION not in headers:
        raise UnsupportedMediaType("browsers must send changes with Content-Type: application/json")


def _check_navigation(request: web.Request) -> None:
    """Allow a request from another site only if it follows a link. Raises ForbiddenOrigin."""
    headers = request.headers
    if (headers.get(FETCH_MODE), headers.get(FETCH_DEST)) != ("navigate", "document"):
        raise ForbiddenOrigin("a page of another site may link to this page, not fetch or embed it")


def _is_origin_of(origin: str, host: str) -> bool:
    """Return whether an origin has the host. A default port may be missing from either."""
    scheme, _, own = origin.partition("://")
    port = DEFAULT_PORTS.get(scheme, "")
    return own == host or own.lower().removesuffix(port) == host.lower().removesuffix(port)


def _normalize_host_name(name: str) -> str:
    """Return the name in lower case without the dot of the root, or the shortest address."""
    address = parse_address(name)
    return name.lower().removesuffix(".") if address is None else str(address)


def parse_host_name(host: str) -> str:
    """Return the lowercase name in a Host header, without port and IPv6 brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()
