"""A server for `/v1/embeddings` whose vectors count letters. A test can make it answer wrongly."""

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.waiting import PATIENCE_S

LETTERS = "abcdefghijklmnopqrstuvwxyz"
KEY = "sk-test-7f3a"


class EmbeddingServer(ThreadingHTTPServer):
    """Listens on a free loopback port."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[list[str]] = []  # the texts of each well-formed request
        self.asked_at: list[float] = []  # the arrival time of each request, in seconds
        self.instead: list[
            tuple[int, bytes]
        ] = []  # (status, body) of the next answers, instead of the right ones
        self.refused = ""  # a text that contains this is refused with 400
        self.poison = ""  # a text that contains this makes the server fail with 500
        self.letters = LETTERS  # one dimension per letter
        self.model = "letters"  # the model name in the answers
        self.reason = ""  # if set, every answer is a 503 with this reason
        self.retry_after = ""  # if set, the Retry-After header of every answer
        self.delay_s = 0.0
        self.pause_s = 0.0  # after each byte of an answer
        self.open = threading.Event()  # while it is cleared, all requests wait
        self.open.set()

    @property
    def url(self) -> str:
        """Return the value for `embedding.url`."""
        return f"http://127.0.0.1:{self.server_port}/v1"

    def vector(self, text: str) -> list[float]:
        """Return how often each letter occurs in the text."""
        counts = Counter(text.lower())
        return [float(counts[letter]) for letter in self.letters]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that were killed; print every other error."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: EmbeddingServer

    def do_POST(self) -> None:
        """Handle one request."""
        self.server.asked_at.append(time.monotonic())
        wanted = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        time.sleep(self.server.delay_s)
        self.server.open.wait(PATIENCE_S)
        status, body = self._answer(wanted) if not self.server.reason else (503, b"")
        self.send_response(status, self.server.reason or None)
        self.send_header("Content-Length", str(len(body)))
        if self.server.retry_after:
            self.send_header("Retry-After", self.server.retry_after)
        self.end_headers()
        pieces = [body[at : at + 1] for at in range(len(body))] if self.server.pause_s else [body]
        for piece in pieces:
            self.wfile.write(piece)
            time.sleep(self.server.pause_s)

    def _answer(self, wanted: dict[str, Any]) -> tuple[int, bytes]:
        if self.path != "/v1/embeddings" or wanted["model"] != "letters":
            return 404, b"{}"
        if self.headers["Authorization"] != f"Bearer {KEY}":
            return 401, b"{}"
        if self.server.instead:
            return self.server.instead.pop(0)
        texts: list[str] = wanted["input"]
        if "" in texts or (
            self.server.refused and any(self.server.refused in text for text in texts)
        ):
            return 400, b"{}"
        if self.server.poison and any(self.server.poison in text for text in texts):
            return 500, b"{}"
        self.server.asked.append(texts)
        data = [
            {"object": "embedding", "index": at, "embedding": self.server.vector(text)}
            for at, text in enumerate(texts)
        ]
        return 200, json.dumps(
            {"object": "list", "data": data[::-1], "model": self.server.model}
        ).encode()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


@contextmanager
def embedding_server() -> Iterator[EmbeddingServer]:
    """Run the server until the end of the context."""
    server = EmbeddingServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
