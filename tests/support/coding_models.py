"""A local server with the APIs of models that coding tools call, which streams one answer.

It serves `/v1/messages` (Anthropic), `/v1/responses` and `/v1/chat/completions` (OpenAI), and
`:streamGenerateContent` and `:generateContent` (Gemini).
"""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Json = dict[str, Any]
# The name and the input of a tool.
Call = tuple[str, Json]
Answer = str | Call
USAGE = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}


class CodingModels(ThreadingHTTPServer):
    """Answers each request with `answer`. Use it as a context.

    `call` is the name and input of a tool that the first answer calls, if the request offers it.
    """

    daemon_threads = True

    def __init__(self, answer: str = "noted", call: Call | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer, self._call = answer, call
        self._lock = threading.Lock()
        self.requests: list[tuple[str, str]] = []
        """The path and the body of each request."""

    @property
    def url(self) -> str:
        """Return the address, without a path."""
        return f"http://127.0.0.1:{self.server_port}"

    def bodies(self, path: str) -> list[str]:
        """Return the bodies of the requests whose path has this text."""
        return [body for name, body in self.requests if path in name]

    def next_answer(self, body: str) -> str | Call:
        """Return the call of a tool, once, or else the answer."""
        with self._lock:
            if self._call is None or f'"{self._call[0]}"' not in body:
                return self.answer
            call, self._call = self._call, None
            return call

    def __enter__(self) -> Self:
        """Serve in a thread."""
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the server."""
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that end early."""


class _Handler(BaseHTTPRequestHandler):
    server: CodingModels
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        self.server.requests.append((self.path, body))
        path, answer = self.path.partition("?")[0], self.server.next_answer(body)
        if path.endswith("/messages"):
            self._send(_stream(_anthropic(answer), named=True))
        elif path.endswith("/responses"):
            self._send(_stream(_responses(answer), named=True))
        elif path.endswith("/chat/completions"):
            self._send(_stream(_chat(answer)) + b"data: [DONE]\n\n")
        elif path.endswith(":streamGenerateContent"):
            self._send(_stream([_gemini(answer)]))
        elif path.endswith(":generateContent"):
            self._send(json.dumps(_gemini(answer)).encode(), "application/json")
        elif path.endswith(("count_tokens", ":countTokens")):
            self._send(b'{"input_tokens": 1, "totalTokens": 1}', "application/json")
        else:
            self._send(b'{"error": {"message": "no such path"}}', "application/json", 404)

    def do_GET(self) -> None:
        self.server.requests.append((self.path, ""))
        self._send(b'{"data": [], "models": []}', "application/json")

    def _send(self, body: bytes, kind: str = "text/event-stream", status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def _stream(events: Iterator[Json] | list[Json], *, named: bool = False) -> bytes:
    """Return server-sent events, with the type of each as its name if `named`."""
    lines = []
    for event in events:
        name = f"event: {event['type']}\n" if named else ""
        lines.append(f"{name}data: {json.dumps(event)}\n\n")
    return "".join(lines).encode()


def _anthropic(answer: Answer) -> Iterator[Json]:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "stub"}
    message |= {"content": [], "stop_reason": None, "stop_sequence": None, "usage": USAGE}
    yield {"type": "message_start", "message": message}
    block: Json = {"type": "text", "text": ""}
    delta: Json = {"type": "text_delta", "text": answer}
    if not isinstance(answer, str):
        block = {"type": "tool_use", "id": "toolu_1", "name": answer[0], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(answer[1])}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    reason = "end_turn" if isinstance(answer, str) else "tool_use"
    delta = {"stop_reason": reason, "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": USAGE}
    yield {"type": "message_stop"}


def _responses(answer: Answer) -> Iterator[Json]:
    response: Json = {"id": "resp_1", "object": "response", "status": "in_progress", "output": []}
    yield {"type": "response.created", "response": response}
    if isinstance(answer, str):
        part = {"type": "output_text", "text": answer, "annotations": []}
        item: Json = {"id": "msg_1", "type": "message", "role": "assistant", "content": [part]}
    else:
        item = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": answer[0]}
        item |= {"arguments": json.dumps(answer[1])}
    item["status"] = "completed"
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    details = {"input_tokens_details": None, "output_tokens_details": None}
    done = response | {"status": "completed", "output": [item], "usage": USAGE | details}
    yield {"type": "response.completed", "response": done}


def _chat(answer: Answer) -> Iterator[Json]:
    chunk: Json = {"id": "c1", "object": "chat.completion.chunk", "created": 0, "model": "stub"}
    delta: Json = {"role": "assistant", "content": answer}
    if not isinstance(answer, str):
        function = {"name": answer[0], "arguments": json.dumps(answer[1])}
        called = {"index": 0, "id": "call_1", "type": "function", "function": function}
        delta = {"role": "assistant", "tool_calls": [called]}
    yield chunk | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    reason = "stop" if isinstance(answer, str) else "tool_calls"
    end = chunk | {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    yield end | {"usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}


def _gemini(answer: Answer) -> Json:
    part: Json = {"text": answer}
    if not isinstance(answer, str):
        part = {"functionCall": {"name": answer[0], "args": answer[1]}}
    content = {"role": "model", "parts": [part]}
    counts = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    candidate = {"content": content, "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "usageMetadata": counts, "modelVersion": "stub"}
