"""HTTP/1.1 pipelining on the standard library: many requests on one connection before the first
answer.
"""

import socket
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import NamedTuple, Self
from urllib.parse import urlsplit

from tests.support.waiting import PATIENCE_S

BODILESS = (204, 304)


class Request(NamedTuple):
    """One request; `head` has its header lines without Host and Content-Length."""

    method: str
    target: str
    head: tuple[str, ...] = ()
    body: bytes = b""

    def pack(self) -> bytes:
        lines = [
            f"{self.method} {self.target} HTTP/1.1",
            "Host: localhost",
            f"Content-Length: {len(self.body)}",
            *self.head,
        ]
        return "\r\n".join([*lines, "", ""]).encode() + self.body


class Response(NamedTuple):
    """An answer without the headers that change between runs."""

    status: int
    head: bytes
    body: bytes


class Pipelining:
    """One connection. Use it as a context."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._socket = socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE_S)
        self._buffer = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()

    def ask(self, requests: Sequence[Request]) -> Iterator[Response]:
        """Send the requests and return the answers in order."""
        self._socket.sendall(b"".join(request.pack() for request in requests))
        for request in requests:
            yield self._answer(request.method)

    def _answer(self, method: str) -> Response:
        head = self._until(b"\r\n\r\n")
        status = int(head[9:12])
        lines = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(b":") for line in head.split(b"\r\n")[1:])
        }
        wanted = (
            0 if method == "HEAD" or status in BODILESS else int(lines.get(b"content-length", 0))
        )
        body = self._take(wanted)
        return Response(
            status,
            b"\n".join(line for line in head.split(b"\r\n") if not line.startswith(b"Date:")),
            body,
        )

    def _until(self, mark: bytes) -> bytes:
        while (at := self._buffer.find(mark)) < 0:
            self._receive()
        found, self._buffer = self._buffer[:at], self._buffer[at + len(mark) :]
        return found

    def _take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._receive()
        found, self._buffer = self._buffer[:size], self._buffer[size:]
        return found

    def _receive(self) -> None:
        chunk = self._socket.recv(1 << 18)
        assert chunk, f"the server closed the connection: {self._buffer!r:.500}"
        self._buffer += chunk
