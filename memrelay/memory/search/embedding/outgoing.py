"""Outgoing connections with a checked address: private addresses are rejected unless allowed."""

import io
import socket
import ssl
import time
from concurrent.futures import Future
from functools import partial
from http.client import HTTPConnection, HTTPResponse
from threading import Thread
from typing import TYPE_CHECKING
from urllib.parse import SplitResult

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

from memrelay.memory.errors import EmbeddingFault, EmbeddingUnavailable
from memrelay.outgoing.addresses import is_public


class _DeadlineReader(io.RawIOBase):
    """The data of a socket until a deadline on the monotonic clock.

    A plain socket timeout starts again with each byte, so a slow server could hold it forever.
    """

    def __init__(self, connection: socket.socket, until: float) -> None:
        self._connection, self._received, self._until = (
            connection,
            connection.makefile("rb", buffering=0),
            until,
        )

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int | None:
        """Read into the buffer. Raises TimeoutError after the deadline."""
        left_s = self._until - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._connection.settimeout(left_s)
        return self._received.readinto(buffer)

    def close(self) -> None:
        """Close the file, which releases the socket."""
        self._received.close()
        super().close()


class _Response(HTTPResponse):
    """A response that must be complete before the deadline of its connection."""

    def __init__(self, sock: socket.socket, *given: object, until: float, **named: object) -> None:
        super().__init__(sock, *given, **named)  # type: ignore[arg-type]
        self.fp.close()
        self.fp = io.BufferedReader(_DeadlineReader(sock, until))


def open_connection(
    url: SplitResult, *, private: bool, timeout_s: float, setting: str = "embedding.private"
) -> HTTPConnection:
    """Return an open connection. The name is resolved once, and only that address is used.

    The deadline covers everything from resolving to the last byte of the answer. After it, reads
    raise TimeoutError. `setting` is the name of the one that allows private addresses.

    Raises EmbeddingFault: when the address is private and `private` is not set.
    Raises EmbeddingUnavailable: when the server cannot be reached in time.
    """
    host, port = url.hostname or "", url.port or (443 if url.scheme == "https" else 80)
    until = time.monotonic() + timeout_s
    try:
        addresses = _resolve(host, port, until)
    except (OSError, UnicodeError) as error:
        raise EmbeddingUnavailable(
            f"{host} cannot be resolved: {str(error) or 'its name server does not answer'}"
        ) from error
    if not private and (inner := [address for address in addresses if not is_public(address)]):
        raise EmbeddingFault(
            f"{host} is {inner[0]}, which is not public: "
            f"set `{setting}` to true if this is intended"
        )
    connection = HTTPConnection(host, port)
    connection.response_class = partial(_Response, until=until)  # type: ignore[assignment]
    connection.sock = _connect(addresses, port, until)
    if url.scheme == "https":
        connection.sock = _start_tls(connection.sock, host, until)
    connection.sock.settimeout(_seconds_left(until))  # for sending
    return connection


def _seconds_left(until: float) -> float:
    """Return the seconds left, but never 0, which would mean a non-blocking socket."""
    return max(until - time.monotonic(), 0.001)


def _resolve(host: str, port: int, until: float) -> list[str]:
    """Resolve a name in a thread, which is abandoned at the deadline.

    The system's resolver cannot be interrupted, and may take half a minute without an answer.
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
    return answer.result(_seconds_left(until))


def _connect(addresses: list[str], port: int, until: float) -> socket.socket:
    reason: OSError | None = None
    for address in addresses:
        try:
            return socket.create_connection((address, port), _seconds_left(until))
        except OSError as error:
            reason = error
    raise EmbeddingUnavailable(f"{addresses[0]}:{port} cannot be reached: {reason}") from reason


def _start_tls(plain: socket.socket, host: str, until: float) -> socket.socket:
    try:
        plain.settimeout(_seconds_left(until))  # for the whole handshake
        return ssl.create_default_context().wrap_socket(plain, server_hostname=host)
    except OSError as error:
        plain.close()
        raise EmbeddingUnavailable(f"{host}: no secure connection: {error}") from error
