"""A connection to a server whose address was looked at: one that is not public is refused, unless it is allowed."""
import socket
import ssl
from http.client import HTTPConnection
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import SplitResult

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


def connection_to(url: SplitResult, *, private: bool, timeout_s: float) -> HTTPConnection:
    """A connection that is open. The name is resolved once, and what it was resolved to is connected to.

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
    connection = HTTPConnection(host, port, timeout=timeout_s)
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
