"""A connection to a server whose address was looked at: one that is not public is refused, unless
it is allowed."""

import io
import socket
import ssl
import time
from concurrent.futures import Future
from functools import partial
from http.client import HTTPConnection, HTTPResponse
from ipaddress import IPv4Address, IPv6Address, ip_address
from threading import Thread
from typing import TYPE_CHECKING
from urllib.parse import SplitResult

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

from memrelay.memory.errors import EmbeddingFault, EmbeddingLater

NAT64 = 0x64FF9B << 96  # whose addresses hold an IPv4 address in their last 32 bits


def is_public(address: str) -> bool:
    """Whether the address belongs to a machine of the open network. One that wraps an older address
    is as that one is."""
    found: IPv4Address | IPv6Address = ip_address(address.partition("%")[0])
    if isinstance(found, IPv6Address):
        wrapped = found.ipv4_mapped or found.sixtofour
        if int(found) >> 32 == NAT64 >> 32:
            wrapped = IPv4Address(int(found) & 0xFFFFFFFF)
        found = wrapped or found
    return found.is_global and not found.is_multicast


class _Until(io.RawIOBase):
    """What a socket receives until a moment, and not for so long after each byte: a server may send
    one now and then."""

    def __init__(self, connection: socket.socket, until: float) -> None:
        """`until` is by the monotonic clock."""
        self._connection, self._received, self._until = (
            connection,
            connection.makefile("rb", buffering=0),
            until,
        )

    def readable(self) -> bool:
        """For who buffers it."""
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int | None:
        """Raises TimeoutError."""
        left_s = self._until - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._connection.settimeout(left_s)
        return self._received.readinto(buffer)

    def close(self) -> None:
        """And lets the socket go."""
        self._received.close()
        super().close()


class _Response(HTTPResponse):
    """An answer that must be there within the time of its connection, to the last byte."""

    def __init__(self, sock: socket.socket, *given: object, until: float, **named: object) -> None:
        """As HTTPConnection makes one."""
        super().__init__(sock, *given, **named)  # type: ignore[arg-type]
        self.fp.close()
        self.fp = io.BufferedReader(_Until(sock, until))


def connection_to(url: SplitResult, *, private: bool, timeout_s: float) -> HTTPConnection:
    """A connection that is open. The name is resolved once, and what it was resolved to is
    connected to. What is
    not over within `timeout_s`, from the name to the last byte of an answer, is EmbeddingLater, or
    a TimeoutError.

    Raises EmbeddingFault where it must not be, EmbeddingLater where it cannot be.
    """
    host, port = url.hostname or "", url.port or (443 if url.scheme == "https" else 80)
    until = time.monotonic() + timeout_s
    try:
        addresses = _resolved(host, port, until)
    except (OSError, UnicodeError) as error:
        raise EmbeddingLater(
            f"{host} cannot be resolved: {str(error) or 'its server of names does not answer'}"
        ) from error
    if not private and (inner := [address for address in addresses if not is_public(address)]):
        raise EmbeddingFault(
            f"{host} is {inner[0]}, which is not public: set `embedding.private` to true if that is meant"
        )
    connection = HTTPConnection(host, port)
    connection.response_class = partial(_Response, until=until)  # type: ignore[assignment]
    connection.sock = _connected(addresses, port, until)
    if url.scheme == "https":
        connection.sock = _secured(connection.sock, host, until)
    connection.sock.settimeout(_left(until))  # for what is sent
    return connection


def _left(until: float) -> float:
    """Seconds, but no 0, which is not to wait at all."""
    return max(until - time.monotonic(), 0.001)


def _resolved(host: str, port: int, until: float) -> list[str]:
    """The system's resolver cannot be told when to end, and takes half a minute where nobody
    answers it: it is left behind.

    Raises OSError and UnicodeError.
    """
    answer: Future[list[str]] = Future()

    def resolve() -> None:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            answer.set_result([str(address[0]) for *_, address in found])
        except (OSError, UnicodeError) as error:
            answer.set_exception(error)

    Thread(target=resolve, name="resolver", daemon=True).start()
    return answer.result(_left(until))


def _connected(addresses: list[str], port: int, until: float) -> socket.socket:
    reason: OSError | None = None
    for address in addresses:
        try:
            return socket.create_connection((address, port), _left(until))
        except OSError as error:
            reason = error
    raise EmbeddingLater(f"{addresses[0]}:{port} cannot be reached: {reason}") from reason


def _secured(plain: socket.socket, host: str, until: float) -> socket.socket:
    try:
        plain.settimeout(_left(until))  # of all that is sent there and back for it
        return ssl.create_default_context().wrap_socket(plain, server_hostname=host)
    except OSError as error:
        plain.close()
        raise EmbeddingLater(f"{host}: no secure connection: {error}") from error
