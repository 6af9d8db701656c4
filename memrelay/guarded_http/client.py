"""The client for outgoing requests, over aiohttp.

A name is resolved once for each connection, every address of it is checked, and the connection goes
to one of them. No redirect is followed, no proxy variable is read, and answer and time are bounded.
"""

import asyncio
import socket
import ssl
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import lru_cache
from threading import Thread
from typing import Any, NamedTuple, Self
from urllib.parse import SplitResult, urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from memrelay.guarded_http.addresses import is_ip_address
from memrelay.guarded_http.rules import (
    HOP_HEADER,
    Guard,
    OutgoingRefused,
    OutgoingRules,
    Purpose,
    check_not_own,
    find_port,
)

__all__ = [
    "Answer",
    "AnswerTooLong",
    "GuardedClient",
    "OutgoingRefused",
    "Request",
    "RequestFailed",
    "TlsFailed",
    "send_blocking",
]
CONNECT_S = 10.0
# Seconds that an unused connection stays open. Servers close theirs after 5 s and more.
KEEP_ALIVE_S = 4.0
USER_AGENT = "Memrelay"
# The connection of the request of this task.
_transport: ContextVar[asyncio.Transport | None] = ContextVar("transport", default=None)
# Our own addresses that the request of this task may not reach, None for no check.
_own_addresses: ContextVar[list[str] | None] = ContextVar("own_addresses", default=None)


class RequestFailed(Exception):
    """No answer came. The request may succeed later. The text names the host and the reason."""


class TlsFailed(RequestFailed):
    """The server has no certificate that counts, or speaks no TLS."""


class AnswerTooLong(Exception):
    """The answer has more bytes than the request accepts."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request. `timeout_s` is for all of it, from resolving the name to the last byte.

    An answer of more than `most_bytes` is a fault, or is cut off there if `cuts_off` is set. `hop`
    is the number of messages that led to this one, which our own webhooks count on.
    """

    method: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)
    timeout_s: float = 30.0
    most_bytes: int = 1 << 20
    cuts_off: bool = False
    hop: int | None = None


class Answer(NamedTuple):
    """An answer of any status, also of a redirect. Names of `headers` have no case."""

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes
    is_cut_off: bool = False

    @property
    def retry_after_s(self) -> float | None:
        """Return the seconds of the header Retry-After, a number or a date; None without one."""
        header = self.headers.get("Retry-After", "")
        if header.isdecimal():
            return float(header[:9])
        try:
            return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
        except (ValueError, OverflowError):
            return None


class GuardedClient:
    """Sends requests of one purpose and pipeline. Use it as an asynchronous context.

    Connections stay open between requests.
    """

    def __init__(self, rules: OutgoingRules, purpose: Purpose, pipeline: str = "") -> None:
        self._guard = Guard(rules, purpose, pipeline)
        self._resolver = _CheckedResolver(self._guard)

    async def __aenter__(self) -> Self:
        """Open the client; connections open with the first request."""
        self._session = aiohttp.ClientSession(
            connector=_CheckedConnector(
                self._guard,
                resolver=self._resolver,
                use_dns_cache=False,
                # Callers bound their requests. A bound here would let servers that hang use up
                # the connections to all others.
                limit=0,
                family=socket.AF_UNSPEC,
                keepalive_timeout=KEEP_ALIVE_S,
                ssl=_make_tls(ssl.get_default_verify_paths()),
            ),
            trust_env=False,
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("Content-Type",),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close all connections."""
        await self._session.close()

    async def send(self, request: Request) -> Answer:
        """Return the answer to a request.

        Raises OutgoingRefused, RequestFailed, TlsFailed and AnswerTooLong.
        """
        parts = self._guard.check_url(request.url)
        self._guard.check_hop(request.hop)
        host = parts.hostname or ""
        try:
            return await self._exchange(parts, request)
        except (aiohttp.ClientSSLError, ssl.SSLError) as error:
            raise TlsFailed(f"{host}: no secure connection: {_clean(error)}") from error
        except (aiohttp.InvalidURL, ValueError) as error:
            # Their texts may have the URL or a header.
            raise OutgoingRefused(f"{host}: the URL or a header is malformed") from error
        except aiohttp.ClientResponseError as error:
            text = f"{host} does not answer in HTTP: {_clean(error.message)}"
            raise RequestFailed(text) from error
        except aiohttp.ClientConnectorDNSError as error:
            raise RequestFailed(f"{host} cannot be resolved: {_clean(error.os_error)}") from error
        except aiohttp.ClientConnectorError as error:
            text = f"{host}:{find_port(parts)} cannot be reached: {_clean(error.os_error)}"
            raise RequestFailed(text) from error
        except TimeoutError as error:
            if host in self._resolver.resolving:
                text = f"{host} cannot be resolved: its name server does not answer"
                raise RequestFailed(text) from error
            raise RequestFailed(f"{host} does not answer: TimeoutError") from error
        except (aiohttp.ClientError, OSError) as error:
            raise RequestFailed(f"{host} does not answer: {_clean(error)}") from error

    async def _exchange(self, parts: SplitResult, request: Request) -> Answer:
        host, is_complete = parts.hostname or "", False
        _transport.set(None)
        try:
            async with asyncio.timeout(request.timeout_s):
                _own_addresses.set(await self._find_own(parts, request))
                if is_ip_address(host):
                    _check(self._guard, host, find_port(parts), host)
                answer = await self._send(request)
            is_complete = not answer.is_cut_off
            return answer
        finally:
            transport = _transport.get()
            if transport is not None and not is_complete:
                transport.abort()  # with TLS, a closing connection waits for the server

    async def _find_own(self, parts: SplitResult, request: Request) -> list[str] | None:
        """Return the addresses of our own servers on the port of a request, None without any."""
        port = find_port(parts)
        hosts = self._guard.own_hosts(port, parts.path, request.hop)
        return [one for host in hosts for one in await self._resolver.look_up(host, port)] or None

    async def _send(self, request: Request) -> Answer:
        headers = {"Accept-Encoding": "identity", "User-Agent": USER_AGENT, **request.headers}
        if request.hop is not None:
            headers[HOP_HEADER] = str(request.hop)
        async with self._session.request(
            request.method,
            _parse_url(request.url),
            data=request.body,
            headers=headers,
            allow_redirects=False,
        ) as response:
            body, is_cut_off = await _read_within(response, request)
            return Answer(
                response.status,
                "".join(filter(str.isprintable, response.reason or ""))[:100],
                CIMultiDictProxy(CIMultiDict(response.headers)),
                body,
                is_cut_off,
            )


def _parse_url(url: str) -> URL:
    """Return a checked URL. Raises ValueError if aiohttp reads another host or port than the check.

    Two programs that read a URL differently are how a check is passed by.
    """
    parsed, parts = URL(url), urlsplit(url)
    if (parsed.raw_host, parsed.port) != (parts.hostname, find_port(parts)):
        raise ValueError("the host is ambiguous")
    return parsed


async def _read_within(response: aiohttp.ClientResponse, request: Request) -> tuple[bytes, bool]:
    received = bytearray()
    async for piece in response.content.iter_any():
        received += piece
        if len(received) <= request.most_bytes:
            continue
        response.close()
        if not request.cuts_off:
            raise AnswerTooLong(f"the answer has more than {request.most_bytes} bytes")
        return bytes(received[: request.most_bytes]), True
    return bytes(received), False


class _CheckedResolver(AbstractResolver):
    """Resolves names in threads, and refuses one with an address that the rules do not allow."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        # Names whose addresses are awaited.
        self.resolving: set[str] = set()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the checked addresses of a host. Raises OutgoingRefused and OSError."""
        addresses = await self.look_up(host, port)
        for address in addresses:
            _check(self._guard, host, port, address)
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for address in addresses
        ]

    async def look_up(self, host: str, port: int) -> list[str]:
        """Return the addresses of a host. Raises OSError.

        The system's resolver cannot be interrupted, and may take half a minute. So a thread asks
        it, which nobody waits for after the deadline.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[str]] = loop.create_future()
        Thread(
            target=_resolve, args=(host, port, loop, answer), name="resolver", daemon=True
        ).start()
        self.resolving.add(host)
        # A name stays in the set if the wait is cancelled, so that the error can tell.
        try:
            addresses = await answer
        except OSError:
            self.resolving.discard(host)
            raise
        self.resolving.discard(host)
        return addresses

    async def close(self) -> None:
        """Nothing is open."""


def _resolve(
    host: str, port: int, loop: asyncio.AbstractEventLoop, answer: "asyncio.Future[list[str]]"
) -> None:
    addresses: list[str] = []
    fault: OSError | None = None
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(endpoint[0]) for *_, endpoint in found))
    except (OSError, UnicodeError) as error:
        fault = error if isinstance(error, OSError) else OSError(str(error))

    def finish() -> None:
        if answer.done():
            return
        if fault is None:
            answer.set_result(addresses)
        else:
            answer.set_exception(fault)

    with suppress(RuntimeError):  # nobody waits, and the loop has ended
        loop.call_soon_threadsafe(finish)


class _CheckedConnector(aiohttp.TCPConnector):
    """Checks the address of the peer of each connection before a request is sent to it."""

    def __init__(self, guard: Guard, **options: Any) -> None:
        super().__init__(**options)
        self._guard = guard

    async def connect(self, req: Any, traces: Any, timeout: Any) -> Any:
        """Return a connection to an allowed address. Raises OutgoingRefused."""
        connection = await super().connect(req, traces, timeout)
        _transport.set(connection.transport)
        peer = connection.transport.get_extra_info("peername") if connection.transport else None
        if not peer:
            connection.close()
            raise OSError("the connection was lost")
        try:
            _check(self._guard, str(req.url.host), req.url.port, str(peer[0]))
        except OutgoingRefused:
            connection.close()
            raise
        return connection


def _check(guard: Guard, host: str, port: int, address: str) -> None:
    """Check an address for the request of this task. Raises OutgoingRefused."""
    guard.check_address(host, port, address)
    own = _own_addresses.get()
    if own is not None:
        check_not_own(host, address, own)


@lru_cache(maxsize=4)
def _make_tls(_paths: ssl.DefaultVerifyPaths) -> ssl.SSLContext:
    """Return the context for the certificates of these paths. Loading them takes milliseconds."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(("http/1.1",))
    return context


def _clean(error: object) -> str:
    text = "".join(filter(str.isprintable, " ".join(str(error).split())))[:200]
    return text or type(error).__name__


def send_blocking(
    rules: OutgoingRules, purpose: Purpose, request: Request, pipeline: str = ""
) -> Answer:
    """Return the answer to one request. Blocks; any thread may call it. Raises as `send`."""

    async def send() -> Answer:
        try:
            async with GuardedClient(rules, purpose, pipeline) as client:
                return await client.send(request)
        finally:
            await asyncio.sleep(0)  # a connection whose handshake was cut off ends now

    # The thread of the caller may have an event loop of its own.
    pool = ThreadPoolExecutor(1, "outgoing")
    try:
        return pool.submit(asyncio.run, send()).result()
    finally:
        pool.shutdown(wait=False)
