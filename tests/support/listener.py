"""A WebSocket client (RFC 6455) on the standard library: blocking, or as slow as a test wants."""

import json
import socket
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

from tests.support.http import Answer, read_answer

TEXT, CLOSE, PING, PONG = 1, 8, 9, 10
MASKED, FINAL = 0x80, 0x80


class Closed(NamedTuple):
    """The close code and reason of the server."""

    code: int
    reason: str


class Listener:
    """One WebSocket on a swarm. Use it as a context."""

    def __init__(
        self,
        url: str,
        uid: str,
        query: str = "",
        *,
        swarm: str = "chat",
        path: str = "",
        buffer_bytes: int = 0,
        **headers: str,
    ) -> None:
        """Connect and shake hands. `answer` is the handshake response; `buffer_bytes` limits the
        receive buffer. `path` replaces that of the swarm's messages.
        """
        path = path or f"/v1/pipelines/{uid}/swarms/{swarm}/messages"
        parts = urlsplit(url)
        self.socket = socket.socket()
        self.socket.settimeout(10)
        if buffer_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        self.socket.connect((parts.hostname, parts.port))
        given = {
            "Host": parts.netloc,
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        } | {name.replace("_", "-"): headers[name] for name in headers}
        lines = [
            f"GET {parts.path}{path}{query} HTTP/1.1",
            *[f"{k}: {v}" for k, v in given.items()],
        ]
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode())
        self.answer, self._buffer = read_answer(self.socket)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connection without a close frame."""
        self.socket.close()

    @property
    def refusal(self) -> Answer:
        """Return the response if it does not open a WebSocket."""
        assert self.answer.status != 101
        return self.answer

    def frame(self) -> tuple[int, bytes]:
        """Return the next frame: (opcode, payload)."""
        while (whole := split_frame(self._buffer)) is None:
            chunk = self.socket.recv(65536)
            if not chunk:
                raise ConnectionError("closed without a frame that says so")
            self._buffer += chunk
        opcode, payload, self._buffer = whole
        return opcode, payload

    def receive(self) -> dict[str, Any]:
        """Return the next message of the log: {"cursor", "mid", "message"}."""
        opcode, payload = self.frame()
        if opcode == PING:
            self.send(PONG, payload)
            return self.receive()
        assert opcode == TEXT, (opcode, payload)
        heard: dict[str, Any] = json.loads(payload)
        return heard

    def texts(self, count: int) -> list[str]:
        """Return the texts of the next messages."""
        return [self.receive()["message"]["args"][0]["text"] for _ in range(count)]

    def close_frame(self) -> Closed:
        """Read up to the close frame and return it."""
        return self.rest()[1]

    def rest(self) -> tuple[list[str], Closed]:
        """Return the texts up to the close frame, and the close frame."""
        texts = []
        while (frame := self.frame())[0] != CLOSE:
            texts.append(json.loads(frame[1])["message"]["args"][0]["text"])
        return texts, Closed(int.from_bytes(frame[1][:2]), frame[1][2:].decode())

    def send(self, opcode: int, payload: bytes) -> None:
        """Send one frame, masked with zeros."""
        size = len(payload)
        length = bytes([MASKED | size]) if size < 126 else bytes([MASKED | 127]) + size.to_bytes(8)
        self.socket.sendall(bytes([FINAL | opcode]) + length + bytes(4) + payload)

    def leave(self) -> None:
        """Send a close frame, as a browser does."""
        self.send(CLOSE, (1000).to_bytes(2))
        assert self.close_frame().code == 1000


def split_frame(data: bytes) -> tuple[int, bytes, bytes] | None:
    """Return (opcode, payload, rest) of a server frame; None while it is incomplete."""
    if len(data) < 2:
        return None
    size, start = data[1] & 0x7F, 2
    if size > 125:
        start = 4 if size == 126 else 10
        size = int.from_bytes(data[2:start])
    if len(data) < start + size:
        return None
    return data[0] & 0x0F, data[start : start + size], data[start + size :]
