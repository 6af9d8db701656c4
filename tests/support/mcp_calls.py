"""An MCP client of revision 2026-07-28 on the standard library: calls, and streams of updates."""

import json
import socket
from itertools import count
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

from tests.support.bundles import Json
from tests.support.http import Answer, ask
from tests.support.keys import ApiKey

REVISION = "2026-07-28"
PREFIX = "io.modelcontextprotocol"
NUMBERS = count(1)
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


class McpError(AssertionError):
    """A protocol error."""

    def __init__(self, error: Json) -> None:
        super().__init__(error)
        self.code: int = error["code"]
        self.text: str = error["message"]


class McpCalls(NamedTuple):
    """Calls an MCP server by HTTP."""

    url: str
    path: str
    key: ApiKey | None = None

    def ask(self, method: str, **params: Any) -> Answer:
        """Send a request and return the answer."""
        body, headers = make_request(method, params, self.key)
        return ask(self.url, "POST", self.path, body, headers)

    def __call__(self, method: str, **params: Any) -> Any:
        """Return the result. Raises McpError."""
        answer = self.ask(method, **params).json
        if "error" in answer:
            raise McpError(answer["error"])
        return answer["result"]

    def read(self, uri: str) -> Any:
        """Return the JSON of a resource. Raises McpError."""
        (contents,) = self("resources/read", uri=uri)["contents"]
        assert contents["mimeType"] == "application/json"
        return json.loads(contents["text"])

    def listen(self, *uris: str, to_list: bool = False, buffer_bytes: int = 0) -> "McpStream":
        """Open a stream of updates."""
        wanted: Json = {"resourceSubscriptions": list(uris)}
        if to_list:
            wanted["resourcesListChanged"] = True
        return McpStream(self, {"notifications": wanted}, buffer_bytes)


def make_request(method: str, params: Json, key: ApiKey | None) -> tuple[Json, dict[str, str]]:
    """Return the body and the headers of a request."""
    meta = {
        f"{PREFIX}/protocolVersion": REVISION,
        f"{PREFIX}/clientCapabilities": {},
        f"{PREFIX}/clientInfo": {"name": "tests", "version": "1"},
    }
    body = {
        "jsonrpc": "2.0",
        "id": next(NUMBERS),
        "method": method,
        "params": {**params, "_meta": meta},
    }
    headers = {
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "MCP-Protocol-Version": REVISION,
        "Mcp-Method": method,
    }
    if method in NAMED:
        headers["Mcp-Name"] = params[NAMED[method]]
    return body, headers | (key.headers if key else {})


class McpStream:
    """One `subscriptions/listen`. Use it as a context; `honored` is what the server sends."""

    def __init__(self, calls: McpCalls, params: Json, buffer_bytes: int) -> None:
        parts = urlsplit(calls.url)
        self.socket = socket.socket()
        if buffer_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        self.socket.settimeout(20)
        self.socket.connect((parts.hostname, parts.port))
        body, headers = make_request("subscriptions/listen", params, calls.key)
        data = json.dumps(body).encode()
        lines = [
            f"POST {calls.path} HTTP/1.1",
            f"Host: {parts.netloc}",
            "Connection: close",
            *[f"{name}: {value}" for name, value in headers.items()],
            f"Content-Length: {len(data)}",
        ]
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode() + data)
        self.id = body["id"]
        self._file = self.socket.makefile("rb")

    def __enter__(self) -> Self:
        try:
            self.honored = self.receive()["params"]["notifications"]
        except (AssertionError, EOFError, OSError):
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._file.close()
        self.socket.close()

    def receive(self) -> Json:
        """Return the next message. Raises EOFError: the stream has ended."""
        while line := self._file.readline():
            if line.startswith(b"data: "):
                message: Json = json.loads(line.removeprefix(b"data: "))
                assert meta_of(message)[f"{PREFIX}/subscriptionId"] == self.id
                return message
            if line.startswith(b"{"):
                raise McpError(json.loads(line)["error"])
        raise EOFError("the stream has ended")

    def hear_update(self) -> str:
        """Return the URI of the next update, or "list" if the list of resources changed."""
        message = self.receive()
        if message["method"] == "notifications/resources/list_changed":
            return "list"
        assert message["method"] == "notifications/resources/updated"
        return str(message["params"]["uri"])


def meta_of(message: Json) -> Json:
    """Return the `_meta` of a notification or of a result."""
    found: Json = message.get("params", message.get("result"))["_meta"]
    return found
