"""A blocking connection to the bus, without an event loop that would disturb a measurement."""

import socket
from collections.abc import Sequence
from typing import Any

import hiredis


class BlockingConnection:
    """Send packed commands to a Unix socket and read the replies."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        self._reader = hiredis.Reader()

    def send(self, payload: bytes, replies: int) -> Any:
        """Send packed commands. Wait for `replies` replies and return the last one."""
        self._socket.sendall(payload)
        reply: Any = None
        for _ in range(replies):
            while (reply := self._reader.gets()) is False:
                self._reader.feed(self._socket.recv(1 << 18))
        return reply

    def send_all(self, commands: Sequence[bytes]) -> list[Any]:
        """Send packed commands together and return their replies."""
        self._socket.sendall(b"".join(commands))
        return [self.send(b"", 1) for _ in commands]

    def receive(self, within_s: float) -> Any:
        """Return the next reply or message. Raises TimeoutError."""
        self._socket.settimeout(within_s)
        while (reply := self._reader.gets()) is False:
            self._reader.feed(self._socket.recv(1 << 18))
        return reply
