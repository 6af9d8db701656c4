"""A blocking connection for measurements: it has nothing else to do while it waits."""

import socket
from typing import Any

import hiredis


class BlockingConnection:
    """Sends packed commands and reads their replies."""

    def __init__(self, path: str) -> None:
        """`path` is the server's unix socket."""
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        self._reader = hiredis.Reader()

    def send(self, payload: bytes, replies: int) -> Any:
        """The last of the replies."""
        self._socket.sendall(payload)
        reply: Any = None
        for _ in range(replies):
            while (reply := self._reader.gets()) is False:
                self._reader.feed(self._socket.recv(1 << 18))
        return reply
