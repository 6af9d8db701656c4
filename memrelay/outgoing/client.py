"""POST requests to services with a checked address, over aiohttp.

Names are resolved once for each connection, and private addresses are refused unless allowed. No
redirect is followed, no proxy variable is read, and the answer is bounded.
"""

import asyncio
import socket
from collections.abc import Mapping
from ipaddress import ip_address
from typing import NamedTuple, Self

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from memrelay.outgoing.addresses import is_public

CONNECT_S = 10.0
# How long an unused connection stays open. Many servers close theirs after 5 s, and a request that
# is sent at that moment fails.
KEEP_ALIVE_S = 4.0
# Bytes of an answer.
MAX_ANSWER = 8 << 20


class PrivateAddress(Exception):
    """The service has an address that is not public."""


class AnswerTooLong(Exception):
    """The answer has more than MAX_ANSWER bytes."""


class Answer(NamedTuple):
    """An answer of any status. `retry_after` is that header, "" without it."""

    status: int
    reason: str
    body: bytes
    retry_after: str


class _CheckedResolver(AbstractResolver):
    """Resolves names. Raises PrivateAddress."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        resolved = await asyncio.get_running_loop().getaddrinfo(
            host, port, type=socket.SOCK_STREAM, family=family
        )
        addresses = [str(endpoint[0]) for *_, endpoint in resolved]
        for address in addresses:
            check_public(host, address)
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=kind,
                proto=protocol,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for address, (kind, _, protocol, _, _) in zip(addresses, resolved, strict=True)
        ]

    async def close(self) -> None:
        """Nothing is open."""


def check_public(host: str, address: str) -> None:
    """Raise PrivateAddress if an address is not public."""
    if not is_public(address):
        raise PrivateAddress(
            f"{host} is {address}, which is not public: set `agents.private: true` in config.yaml "
            "and restart, if this is intended"
        )


class GuardedClient:
    """Sends requests. Use it as an asynchronous context. `private` allows private addresses."""

    def __init__(self, *, private: bool) -> None:
        self._private = private

    async def __aenter__(self) -> Self:
        """Open the client; connections open with the first request."""
        connector = aiohttp.TCPConnector(
            resolver=None if self._private else _CheckedResolver(),
            use_dns_cache=False,
            family=socket.AF_UNSPEC,
            limit=0,  # the worker limits how many deferred calls run at once
            keepalive_timeout=KEEP_ALIVE_S,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            trust_env=False,
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_S),
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close all connections."""
        await self._session.close()

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Return the answer to a POST with a JSON body.

        Raises PrivateAddress, AnswerTooLong, aiohttp.ClientError, TimeoutError and OSError.
        """
        parsed = URL(url)
        if not self._private and _is_ip_address(parsed.host or ""):
            check_public(parsed.host or "", parsed.host or "")
        plain = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        async with self._session.post(
            parsed, data=body, headers={**plain, **headers}, allow_redirects=False
        ) as response:
            return Answer(
                response.status,
                "".join(filter(str.isprintable, response.reason or ""))[:100],
                await _read_within(response, MAX_ANSWER),
                response.headers.get("Retry-After", ""),
            )


async def _read_within(response: aiohttp.ClientResponse, most: int) -> bytes:
    received = bytearray()
    async for piece in response.content.iter_any():
        received += piece
        if len(received) > most:
            raise AnswerTooLong(f"the answer has more than {most} bytes")
    return bytes(received)


def _is_ip_address(host: str) -> bool:
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True
