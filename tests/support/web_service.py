"""A service on loopback that keeps the requests it gets, and answers as a test says."""

import threading
from collections import deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self


class Received(NamedTuple):
    """A request."""

    method: str
    path: str
    headers: dict[str, str]  # names in lower case
    body: str


class WebService(ThreadingHTTPServer):
    """Answers with `script`, pairs of a status and a body, and then with `{"ok": true}`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received: list[Received] = []
        # The address of the client of each request.
        self.clients: list[tuple[str, int]] = []
        self.script: deque[tuple[int, bytes]] = deque()
        self.answer_headers: dict[str, str] = {}
        # Each is called once, before an answer.
        self.on_request: deque[Callable[[], object]] = deque()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def rules(self) -> dict[str, Any]:
        """The rules of a worker that allow requests to it."""
        return {"private": [["127.0.0.1", self.server_port, ["http"]]]}

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: WebService
    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(size).decode()
        self.server.clients.append(self.client_address)
        self.server.received.append(Received(self.command, self.path, headers, body))
        if self.server.on_request:
            self.server.on_request.popleft()()
        script = self.server.script
        status, content = script.popleft() if script else (200, b'{"ok": true}')
        self.send_response(status)
        for name, value in self.server.answer_headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

    def log_message(self, *_: object) -> None:
        """Print nothing."""
