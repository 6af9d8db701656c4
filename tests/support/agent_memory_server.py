"""A local server with the reading part of the API of Redis agent-memory-server."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

SEARCH, SESSIONS = "/v1/long-term-memory/search", "/v1/working-memory/"


class AgentMemoryServer(ThreadingHTTPServer):
    """Answers with these memories and sessions. Use it as a context.

    `status` replaces the status of all answers.
    """

    daemon_threads = True

    def __init__(self, memories: list[Any], sessions: dict[str, Any], status: int = 200) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.memories, self.sessions, self.status = memories, sessions, status
        # A session that is listed and does not exist any more.
        self.expired: list[str] = []
        self.repeats = False
        self.requests: list[str] = []

    @property
    def url(self) -> str:
        """Return the address."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: AgentMemoryServer

    def do_POST(self) -> None:
        """Answer a search."""
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(f"{self.path} {given['offset']}")
        at = 0 if self.server.repeats else given["offset"]
        end = at + given["limit"]
        memories = self.server.memories
        more = end if end < len(memories) else None
        self._answer(
            {"memories": memories[at:end], "total": len(memories), "next_offset": more}
            if self.path == SEARCH
            else None
        )

    def do_GET(self) -> None:
        """Answer with the names of sessions, or with one."""
        self.server.requests.append(self.path)
        place = urlsplit(self.path)
        if place.path != SESSIONS:
            self._answer(self.server.sessions.get(unquote(place.path.removeprefix(SESSIONS))))
            return
        asked = {name: int(values[0]) for name, values in parse_qs(place.query).items()}
        names = [*self.server.sessions, *self.server.expired]
        page = names[asked["offset"] : asked["offset"] + asked["limit"]]
        self._answer({"sessions": page, "total": len(names)})

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing."""

    def _answer(self, found: object) -> None:
        body = json.dumps({"detail": "not found"} if found is None else found).encode()
        self.send_response(404 if found is None else self.server.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
