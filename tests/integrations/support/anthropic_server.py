"""A local server with the API of `/v1/messages` and an answer that a test makes."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]
USAGE = {"input_tokens": 1, "output_tokens": 1}


class AnthropicServer(ThreadingHTTPServer):
    """Answers each request with the block that `reply(request)` returns: text or `tool_use`."""

    daemon_threads = True

    def __init__(self, reply: Callable[[Json], Json]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.reply = reply
        self.requests: list[Json] = []

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables by which Claude Code uses this server, and no other one."""
        return {
            "ANTHROPIC_API_KEY": "key",
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{self.server_port}",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }


@contextmanager
def serve_messages(reply: Callable[[Json], Json]) -> Iterator[AnthropicServer]:
    """Serve in a thread."""
    with AnthropicServer(reply) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server
        server.shutdown()


class _Handler(BaseHTTPRequestHandler):
    server: AnthropicServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._send(404, "application/json", "{}")

    do_HEAD = do_GET

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.split("?")[0] != "/v1/messages":
            self._send(404, "application/json", "{}")
            return
        self.server.requests.append(request)
        message = {"id": "msg", "type": "message", "role": "assistant", "usage": USAGE}
        message |= {"model": request["model"], "content": [], "stop_reason": None}
        block = self.server.reply(request)
        is_call = block["type"] == "tool_use"
        end = {"stop_reason": "tool_use" if is_call else "end_turn", "stop_sequence": None}
        if request.get("stream"):
            events = [*_stream(message, block, end)]
            lines = (f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events)
            self._send(200, "text/event-stream", "".join(lines))
        else:
            self._send(200, "application/json", json.dumps(message | end | {"content": [block]}))

    def _send(self, status: int, content_type: str, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def _stream(message: Json, block: Json, end: Json) -> Iterator[Json]:
    if block["type"] == "tool_use":
        start = block | {"input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    else:
        start, delta = block | {"text": ""}, {"type": "text_delta", "text": block["text"]}
    yield {"type": "message_start", "message": message}
    yield {"type": "content_block_start", "index": 0, "content_block": start}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    yield {"type": "message_delta", "delta": end, "usage": USAGE}
    yield {"type": "message_stop"}
