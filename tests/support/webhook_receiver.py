"""A receiver of outgoing webhooks, which answers by a script."""

import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

import orjson

from tests.support.waiting import PATIENCE_S, wait_for


class Received(NamedTuple):
    """A request."""

    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes

    @property
    def id(self) -> str:
        """The webhook-id."""
        return self.headers["webhook-id"]

    @property
    def json(self) -> Any:
        """The body."""
        return orjson.loads(self.body)


class Reply(NamedTuple):
    """An answer."""

    status: int = 200
    body: bytes = b"ok"
    headers: tuple[tuple[str, str], ...] = ()


ACCEPTED = Reply()


class WebhookReceiver(ThreadingHTTPServer):
    """Serves on a free port. The answers of `script` come first, then `usual`."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, *script: Reply, usual: Reply = ACCEPTED, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.script, self.usual = deque(script), usual
        self.requests: list[Received] = []
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        """The URL of an endpoint."""
        return f"http://127.0.0.1:{self.server_port}/hook/secret-path"

    def wait(self, count: int, within_s: float = PATIENCE_S) -> list[Received]:
        """Return the requests when there are so many."""
        wait_for(lambda: len(self.requests) >= count, f"{count} requests", within_s)
        return list(self.requests)

    def note(self, request: Received) -> Reply:
        """Note a request and return its answer."""
        with self.lock:
            self.requests.append(request)
            return self.script.popleft() if self.script else self.usual

    def __enter__(self) -> Self:
        """Serve in a thread."""
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the server."""
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that were killed."""


class _Handler(BaseHTTPRequestHandler):
    server: WebhookReceiver
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        reply = self.server.note(Received(self.path, headers, body))
        self.send_response(reply.status)
        for name, value in reply.headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        self.wfile.write(reply.body)

    def log_message(self, *_: Any) -> None:
        """Print nothing."""
