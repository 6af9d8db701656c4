"""Clients of MCP that disconnect leave nothing behind."""

import json
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.mcp_calls import McpCalls, make_request
from tests.support.waiting import PATIENCE_S, wait_for
from tests.support.web_system import WebSystem

DISCONNECTS = 1_000
# Memory that the allocator may keep.
MAX_GROWTH_MB = 16
METHODS = (
    ("tools/call", {"name": "memory_read", "arguments": {}}),
    ("tools/list", {}),
    ("subscriptions/listen", {"notifications": {"resourcesListChanged": True}}),
)


def handles_of(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def resident_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def disconnect(web_system: WebSystem, path: str, number: int) -> None:
    """Send a request and close the connection: at once, or after the first byte of the answer."""
    method, params = METHODS[number % len(METHODS)]
    body, headers = make_request(method, params, None)
    content = json.dumps(body).encode()
    place = urlsplit(web_system.url)
    fields = {"Host": place.netloc, "Content-Length": str(len(content)), **headers}
    if number % 4 == 0:
        # A handshake client, whose other requests the SDK's stateless transport serves.
        fields["MCP-Protocol-Version"] = "2025-11-25"
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    with socket.create_connection((place.hostname, place.port), timeout=PATIENCE_S) as connection:
        connection.sendall(f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + content)
        if number % 2:
            connection.recv(1)


@pytest.mark.slow
def test_a_thousand_disconnects_leak_nothing(web_system: WebSystem) -> None:
    uid, pid = web_system.deploy(), web_system.web.pid
    path = f"/mcp/{uid}"
    for number in range(100):
        disconnect(web_system, path, number)
    wait_for(lambda: McpCalls(web_system.url, path)("tools/list"), "the server answers")
    handles, before_mb = handles_of(pid), resident_mb(pid)

    for number in range(DISCONNECTS):
        disconnect(web_system, path, number)

    wait_for(lambda: handles_of(pid) <= handles, "all connections are closed")
    assert resident_mb(pid) - before_mb < MAX_GROWTH_MB
    assert McpCalls(web_system.url, path)("tools/call", name="memory_read", arguments={})
