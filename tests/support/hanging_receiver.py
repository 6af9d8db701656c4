"""A receiver of webhooks that accepts connections and never answers, or one byte a second."""

import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Self

BYTE_S = 1.0


def never_answer(connection: socket.socket) -> None:
    """Read until the client gives up."""
    while connection.recv(1 << 16):
        pass


def answer_slowly(connection: socket.socket) -> None:
    """Send one byte a second until the client gives up."""
    for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + b"a" * 1000:
        connection.sendall(bytes([byte]))
        time.sleep(BYTE_S)


class HangingReceiver:
    """Serves on a free port. Use it as a context."""

    def __init__(self, answer: Callable[[socket.socket], None]) -> None:
        self._answer = answer
        self._server = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.connections = 0

    @property
    def url(self) -> str:
        """The URL of an endpoint."""
        return f"http://127.0.0.1:{self._server.getsockname()[1]}/hook"

    def __enter__(self) -> Self:
        """Serve in threads."""
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Accept no more connections."""
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._server.accept()
                self.connections += 1
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with closing(connection), suppress(OSError):
            self._answer(connection)
