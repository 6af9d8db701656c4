"""Sessions of real MCP clients: their calls, the programs that make them, and their requests."""

import json
import os
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.support.child import CHECKOUT
from tests.support.npm import NODE, npm_packages

Json = dict[str, Any]
# The name of a tool, and the arguments; for n8n also the node. $GUID is the guid of the note.
Call = Sequence[Any]
CLIENTS = CHECKOUT / "tests/mcp/clients"
REQUESTS = CHECKOUT / "tests/fixtures/mcp_requests"
TIMEOUT_S = 120
SEA = {"sea": {"name": "Baltic", "depths": [12, None, 459.5]}, "n": 1}
PAGE = {"page": 3, "who": {"said": "Ada"}}
# Headers that a recording keeps.
RECORDED = ("accept", "content-type", "mcp-protocol-version", "mcp-method", "mcp-name")
FORWARDED = (*RECORDED, "authorization")
FRAMEWORK_CALLS: list[Call] = [
    ("memory_write", {"content": "The harbor opens at six", "data": SEA, "tags": ["harbor"]}),
    ("memory_remember", {"text": "Ada likes tea", "metadata": PAGE}),
    ("memory_recall", {"query": "what does Ada drink"}),
    ("memory_search", {"query": "harbor", "filter": {"data.sea.name": {"eq": "Baltic"}}}),
    ("memory_change", {"guid": "$GUID", "content": "It opens at seven", "data": SEA | {"n": 2}}),
    ("memory_read", {"guid": "$GUID"}),
]
# The fields of an item without the arguments of the model.
ITEM = {"tool": "MCP_Client_x", "toolCallId": "call_0BCI", "sessionId": "s1"}
CHAT = {"action": "sendMessage", "chatInput": "remember it"}
# A resource mapper sends its empty fields as null.
UNSET = dict.fromkeys(("kind", "tags", "expires_at", "restore", "if_version", "reason"))
N8N_CALLS: list[Call] = [
    (name, given | added, node)
    for (name, given), added, node in zip(
        FRAMEWORK_CALLS,
        (ITEM, ITEM | CHAT, ITEM, {}, UNSET, {}),
        ("tool", "before", "before", "agent", "client", "agent"),
        strict=True,
    )
]


def run_client(program: str, python: str, url: str, key: str, calls: Sequence[Call]) -> list[Any]:
    """Return the names of the tools that a program lists, and then the answers to its calls."""
    path = CLIENTS / program
    is_node = path.suffix == ".mjs"
    command = [NODE, str(path)] if is_node else [python, "-P", str(path)]
    packages = {"NPM_PACKAGES": str(npm_packages())} if is_node else {}
    ended = subprocess.run(
        [*command, url, key],
        env=os.environ | packages,
        input=json.dumps(calls).encode(),
        stdout=subprocess.PIPE,
        timeout=TIMEOUT_S,
        check=True,
    )
    return [json.loads(line) for line in ended.stdout.splitlines()]


def check_session(tools: Sequence[str], answers: Sequence[Json]) -> None:
    """Check the answers to FRAMEWORK_CALLS or N8N_CALLS: nothing that was sent is lost."""
    assert [one for one in answers if one["error"]] == []
    texts = [one["text"] for one in answers]
    assert "memory_recall" in tools and len(tools) == 8
    assert json.loads(texts[1])["action"] == "created"
    assert "Ada likes tea" in texts[2]
    (hit,) = json.loads(texts[3])["items"]
    assert hit["record"]["data"] == SEA
    read = json.loads(texts[5])
    assert (read["content"], read["data"], read["tags"]) == (
        "It opens at seven",
        SEA | {"n": 2},
        ["harbor"],
    )


class Recorded(NamedTuple):
    """A POST request of a client."""

    headers: Mapping[str, str]
    body: Json

    @property
    def call(self) -> tuple[str, Json] | None:
        """The tool and the arguments of a tool call, None for another request."""
        params = self.body.get("params", {})
        is_call = self.body["method"] == "tools/call"
        return (params["name"], params["arguments"]) if is_call else None


@contextmanager
def recording(url: str) -> Iterator[tuple[str, list[Recorded]]]:
    """Yield a URL that forwards to `url`, and the requests that it gets."""
    target, found = urlsplit(url), list[Recorded]()

    class Forwarder(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.command == "POST":
                kept = {name: self.headers[name] for name in RECORDED if name in self.headers}
                found.append(Recorded(kept, json.loads(body)))
            sent = {name: text for name, text in self.headers.items() if name.lower() in FORWARDED}
            connection = HTTPConnection(target.hostname or "", target.port, timeout=TIMEOUT_S)
            connection.request(self.command, self.path, body, sent)
            answer = connection.getresponse()
            content = answer.read()
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.getheader("Content-Type", "text/plain"))
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            connection.close()

        do_GET = do_POST = do_DELETE = forward  # names of the base class

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Forwarder) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", found
        finally:
            server.shutdown()
            thread.join()


def read_recording(client: str) -> list[Recorded]:
    """Return the recorded requests of a client."""
    lines = (REQUESTS / f"{client}.session.jsonl").read_text().splitlines()
    return [Recorded(**json.loads(line)) for line in lines]
