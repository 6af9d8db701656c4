"""A connection to a server whose address was looked at: one that is not public is refused, unless it is allowed."""
import io
import socket
import ssl
import time
from http.client import HTTPConnection, HTTPResponse
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING
from urllib.parse import SplitResult

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

from memory.errors import EmbeddingFault, EmbeddingLater

NAT64 = 0x64FF9B << 96   # whose addresses hold an IPv4 address in their last 32 bits


def is_public(address: str) -> bool:
    """Whether the address belongs to a machine of the open network. One that wraps an older address is as that one is."""
    found: IPv4Address | IPv6Address = ip_address(address.partition("%")[0])
    if isinstance(found, IPv6Address):
        wrapped = found.ipv4_mapped or found.sixtofour
        if int(found) >> 32 == NAT64 >> 32:
            wrapped = IPv4Address(int(found) & 0xFFFFFFFF)
        found = wrapped or found
    return found.is_global and not found.is_multicast


class _Until(io.RawIOBase):
    """What a socket receives until a moment, and not for so long after each byte: a server may send one now and then."""

    def __init__(self, connection: socket.socket, until: float) -> None:
        """`until` is by the monotonic clock."""
        self._connection, self._received, self._until = connection, connection.makefile("rb", buffering=0), until

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

    def __init__(self, sock: socket.socket, *given: object, **named: object) -> None:
        """As HTTPConnection makes one."""
        super().__init__(sock, *given, **named)   # type: ignore[arg-type]
        self.fp.close()
        self.fp = io.BufferedReader(_Until(sock, time.monotonic() + (sock.gettimeout() or 0)))


class _Connection(HTTPConnection):
    response_class = _Response


def connection_to(url: SplitResult, *, private: bool, timeout_s: float) -> HTTPConnection:
    """A connection that is open. The name is resolved once, and what it was resolved to is connected to. An answer that is
    not there within `timeout_s`, to the last byte, is a TimeoutError.

    Raises EmbeddingFault where it must not be, EmbeddingLater where it cannot be.
    """
    host, port = url.hostname or "", url.port or (443 if url.scheme == "https" else 80)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise EmbeddingLater(f"{host} cannot be resolved: {error}") from error
    addresses = [str(address[0]) for *_, address in found]
    if not private and (inner := [address for address in addresses if not is_public(address)]):
        raise EmbeddingFault(f"{host} is {inner[0]}, which is not public: set `embedding.private` to true if that is meant")
    connection = _Connection(host, port, timeout=timeout_s)
    connection.sock = _connected(addresses, port, timeout_s)
    if url.scheme == "https":
        connection.sock = _secured(connection.sock, host)
    return connection


def _connected(addresses: list[str], port: int, timeout_s: float) -> socket.socket:
    reason: OSError | None = None
    for address in addresses:
        try:
            return socket.create_connection((address, port), timeout_s)
        except OSError as error:
            reason = error
    raise EmbeddingLater(f"{addresses[0]}:{port} cannot be reached: {reason}") from reason


def _secured(plain: socket.socket, host: str) -> socket.socket:
    try:
        return ssl.create_default_context().wrap_socket(plain, server_hostname=host)
    except OSError as error:
        plain.close()
        raise EmbeddingLater(f"{host}: no secure connection: {error}") from error
