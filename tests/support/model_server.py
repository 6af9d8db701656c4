"""A local server with the API of `/chat/completions` and `/responses`, and scripted answers."""

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import orjson

Json = dict[str, Any]


@dataclass(frozen=True)
class Raw:
    """An answer that is sent as it is."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


# A text, a message of the model, or any answer.
Answer = str | Json | Raw


def calls(*tools: tuple[str, Any], ident: str = "call") -> Json:
    """Return a message with tool calls: names with arguments, or with the text of arguments."""
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": f"{ident}_{index}",
                "type": "function",
                "function": {
                    "name": name,
                    "arguments": given if isinstance(given, str) else orjson.dumps(given).decode(),
                },
            }
            for index, (name, given) in enumerate(tools)
        ],
    }


def as_response(text: str) -> Json:
    """Return a text as `/responses` answers it."""
    part = {"type": "output_text", "text": text, "annotations": []}
    message = {"type": "message", "role": "assistant", "status": "completed", "content": [part]}
    output = [{"id": "msg_1", **message}]
    return {"id": "resp_1", "object": "response", "created_at": 0, "output": output}


def fault(status: int, text: str, **headers: str) -> Raw:
    """Return an error as OpenAI's API reports it."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Raw(status, orjson.dumps({"error": {"message": text}}), named)


def echo(request: Json) -> Answer:
    """Return the number of requests' last text, as a model that repeats it."""
    return f"you said: {request['messages'][-1]['content']}"


class ModelServer(ThreadingHTTPServer):
    """Answers with the script, then with `reply(request)`. Use it as a context.

    Answers wait while `hold` is cleared.
    """

    daemon_threads = True

    def __init__(self, *script: Answer, reply: Callable[[Json], Answer] = echo) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script, self.reply = deque(script), reply
        self.requests: list[Json] = []
        self.headers: list[Mapping[str, str]] = []
        self.clients: list[tuple[str, int]] = []
        self.hold = threading.Event()
        self.hold.set()
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        """Return the base URL of the API."""
        return f"http://127.0.0.1:{self.server_port}/v1"

    @property
    def sent(self) -> list[list[tuple[str, Any]]]:
        """Return (role, content) of the messages of each request."""
        return [
            [(one["role"], one["content"]) for one in request["messages"]]
            for request in self.requests
        ]

    def next_answer(self, request: Json) -> Answer:
        """Note a request and return its answer."""
        with self.lock:
            self.requests.append(request)
            answer = self.script.popleft() if self.script else None
        self.hold.wait(60)
        return self.reply(request) if answer is None else answer

    def __enter__(self) -> Self:
        """Serve in a thread."""
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the server."""
        self.hold.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that were killed."""


class _Handler(BaseHTTPRequestHandler):
    server: ModelServer
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.headers.append(dict(self.headers))
        self.server.clients.append(self.client_address)
        if self.path not in ("/v1/chat/completions", "/v1/responses"):
            self._send(fault(404, f"no such path: {self.path}"))
            return
        answer = self.server.next_answer(orjson.loads(body))
        if self.path.endswith("responses") and isinstance(answer, str):
            answer = Raw(200, orjson.dumps(as_response(answer)))
        self._send(answer)

    def _send(self, answer: Answer) -> None:
        if isinstance(answer, str):
            answer = {"role": "assistant", "content": answer}
        if isinstance(answer, dict):
            choice = {"index": 0, "message": answer, "finish_reason": "stop"}
            completion = {"id": "chatcmpl-1", "object": "chat.completion", "created": 0}
            completion |= {"model": "stub", "choices": [choice]}
            answer = Raw(200, orjson.dumps(completion))
        self.send_response(answer.status)
        for name, value in {
            "Content-Type": "application/json",
            "Content-Length": str(len(answer.body)),
            **answer.headers,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""
