"""A server that speaks `/v1/embeddings`: its vectors count the letters of a text. It can be told to
answer otherwise."""

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
    """Listens on loopback, on a port that is free."""

    daemon_threads = True

    def __init__(self) -> None:
        """Answers as it should."""
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[list[str]] = []  # the texts of each request that was well made
        self.asked_at: list[float] = []  # when each request came, s
        self.instead: list[
            tuple[int, bytes]
        ] = []  # (status, body) for the next requests, in place of what is right
        self.refused = ""  # a text with this in it is refused with 400
        self.poison = ""  # at a text with this in it the server fails, with 500
        self.letters = LETTERS  # as many dimensions
        self.model = "letters"  # by which it says that it answers
        self.reason = ""  # where there is one, all answers are 503 with it
        self.retry_after = ""  # of answers, where there is one
        self.delay_s = 0.0
        self.pause_s = 0.0  # after each byte of an answer
        self.open = threading.Event()  # while it is not set, all requests wait
        self.open.set()

    @property
    def url(self) -> str:
        """What `embedding.url` is to be."""
        return f"http://127.0.0.1:{self.server_port}/v1"

    def vector(self, text: str) -> list[float]:
        """How often each letter is in the text."""
        counts = Counter(text.lower())
        return [float(counts[letter]) for letter in self.letters]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who asked may have been killed; anything else is printed."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: EmbeddingServer

    def do_POST(self) -> None:
        """One request."""
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
        """Says nothing."""


@contextmanager
def embedding_server() -> Iterator[EmbeddingServer]:
    """It answers until the end of the context."""
    server = EmbeddingServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
