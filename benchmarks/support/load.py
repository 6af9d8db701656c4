"""A load generator that sends one fixed request over persistent connections.

It recognizes an answer by how it begins and ends, reads it with one call and does not parse it. So
a request costs the generator much less than a server in Python.
"""

import selectors
import socket
import time
from typing import NamedTuple


class Counted(NamedTuple):
    """The number of answers in a round and its duration."""

    answers: int
    seconds: float


class Load:
    """Keep `connections` requests in flight. Every answer must begin and end like the first one."""

    def __init__(self, port: int, request: bytes, connections: int) -> None:
        """Connect, and send one request on each connection to learn the answer."""
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
        """Send requests for `seconds`, then wait for the outstanding answers."""
        for one in self._sockets:
            one.send(self._request)
        started_s, answers, sent = time.perf_counter(), 0, len(self._sockets)
        while answers < sent:
            continues = time.perf_counter() - started_s < seconds
            for key, _ in self._selector.select():
                if not self._has_answer(key.data):
                    continue
                answers += 1
                if continues:
                    key.data.send(self._request)
                    sent += 1
        return Counted(answers, time.perf_counter() - started_s)

    def _has_answer(self, one: socket.socket) -> bool:
        """Return whether a complete answer has arrived. A short answer arrives in one read, or in
        two: head and body."""
        got = one.recv(65536)
        if not got.startswith((self._status, self._body)):
            raise ConnectionError(
                f"answer differs from the first one ({self._status!r}): {got[:300]!r}"
            )
        return got.endswith(self._end)

    def close(self) -> None:
        """Close the connections."""
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
