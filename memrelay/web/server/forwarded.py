"""The address, scheme and host name of a client, as a trusted reverse proxy reports them.

X-Forwarded-For, -Proto and -Host are read from peers in `web.trusted_proxies` only, because any
other client could invent them.
"""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware
from multidict import CIMultiDict

from memrelay.web.server.errors import get_request_id

# The schemes that proxies report. Traefik reports those of WebSockets.
SCHEMES = {"http": "http", "https": "https", "ws": "http", "wss": "https"}


class TrustedProxies:
    """The networks of the trusted proxies."""

    def __init__(self, networks: Sequence[IPv4Network | IPv6Network]) -> None:
        self._networks = networks

    def __contains__(self, address: str) -> bool:
        parsed = parse_address(address) if self._networks else None
        return parsed is not None and any(parsed in network for network in self._networks)


def read_forwarded(proxies: TrustedProxies) -> Middleware:
    """Return the middleware. Requests of other peers than `proxies` pass it unchanged."""

    @web.middleware
    async def read(request: web.Request, handler: Handler) -> web.StreamResponse:
        if (request.remote or "") not in proxies:
            return await handler(request)
        get_request_id(request)  # the copy must have the same id
        return await handler(_restore(request, proxies))

    return read


def parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """Return the address, which may have brackets and a port, None if there is none."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _restore(request: web.Request, proxies: TrustedProxies) -> web.Request:
    """Return the request as the client sent it to the first trusted proxy."""
    headers = CIMultiDict(request.headers)
    host = _first(request, hdrs.X_FORWARDED_HOST)
    if host:
        headers[hdrs.HOST] = host
    scheme = SCHEMES.get(_first(request, hdrs.X_FORWARDED_PROTO).lower(), request.scheme)
    return request.clone(headers=headers, scheme=scheme, remote=_find_client(request, proxies))


def _first(request: web.Request, name: str) -> str:
    return request.headers.get(name, "").partition(",")[0].strip()


def _find_client(request: web.Request, proxies: TrustedProxies) -> str:
    """Return the last address that no trusted proxy has. The client may have sent those before."""
    client = request.remote or ""
    hops = ",".join(request.headers.getall(hdrs.X_FORWARDED_FOR, ())).split(",")
    for hop in reversed(hops):
        address = parse_address(hop)
        if address is None:
            return client
        client = str(address)
        if client not in proxies:
            return client
    return client
