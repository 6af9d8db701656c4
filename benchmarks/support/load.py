"""A load generator for one request: fixed bytes over connections that are kept, answers counted by
how they begin and end.

An answer is read with one call and not parsed, so a request costs the generator much less than a
server in Python.
"""

import selectors
import socket
import time
from typing import NamedTuple


class Counted(NamedTuple):
    """What a round has seen."""

    answers: int
    seconds: float


class Load:
    """Keeps `connections` requests under way. Every answer must begin and end as the first does."""

    def __init__(self, port: int, request: bytes, connections: int) -> None:
        """Connects, and asks once on each connection."""
        self._request = request
        self._sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(connections)]
        self._selector = selectors.DefaultSelector()
        for one in self._sockets:
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            one.sendall(request)
            first = _whole_answer(one)
            one.setblocking(False)
            self._selector.register(one, selectors.EVENT_READ, one)
        self._status, self._end = first[:12], first[-1:]
        self._body = first.partition(b"\r\n\r\n")[2][:2]

    def run(self, seconds: float) -> Counted:
        """Asks for so long, and then waits for what is under way."""
        for one in self._sockets:
            one.send(self._request)
        began, answers, asked = time.perf_counter(), 0, len(self._sockets)
        while answers < asked:
            again = time.perf_counter() - began < seconds
            for key, _ in self._selector.select():
                if not self._has_answer(key.data):
                    continue
                answers += 1
                if again:
                    key.data.send(self._request)
                    asked += 1
        return Counted(answers, time.perf_counter() - began)

    def _has_answer(self, one: socket.socket) -> bool:
        """Whether one has come, whole; what is so short comes in one piece, or in two: head and
        body."""
        got = one.recv(65536)
        if not got.startswith((self._status, self._body)):
            raise ConnectionError(
                f"not the answer that came first ({self._status!r}): {got[:300]!r}"
            )
        return got.endswith(self._end)

    def close(self) -> None:
        """Closes the connections."""
        self._selector.close()
        for one in self._sockets:
            one.close()


def _whole_answer(one: socket.socket) -> bytes:
    got = b""
    while True:
        got += one.recv(65536)
        head, end, body = got.partition(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        length = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), 0)
        if end and len(body) >= length:
            return got
