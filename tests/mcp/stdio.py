"""A minimal MCP client over the standard streams of a process, for tests."""

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

JsonObject = dict[str, Any]
PROTOCOL = "2025-11-25"
END_TIMEOUT_S = 10


class StdioClient:
    """Sends requests to an MCP server and waits for each answer."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process, self._last_id = process, 0
        client = {"name": "tests", "version": "1"}
        self.request(
            "initialize", {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": client}
        )
        self._send({"method": "notifications/initialized"})

    def request(self, method: str, params: JsonObject | None = None) -> JsonObject:
        """Return the result of a request. The server must answer without an error."""
        self._last_id += 1
        self._send({"id": self._last_id, "method": method, "params": params or {}})
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            if answer.get("id") == self._last_id:
                assert "error" not in answer, answer
                result: JsonObject = answer["result"]
                return result
        raise AssertionError(f"the server ended with {self._process.wait(END_TIMEOUT_S)}")

    def call(self, name: str, **arguments: Any) -> JsonObject:
        """Return the result of a tool call."""
        return self.request("tools/call", {"name": name, "arguments": arguments})

    def _send(self, message: JsonObject) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._process.stdin.flush()


@contextmanager
def stdio_client(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[StdioClient]:
    """Start a server and yield its client. The server ends with its input."""
    with subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
    ) as process:
        try:
            yield StdioClient(process)
            assert process.stdin is not None
            process.stdin.close()
            process.wait(END_TIMEOUT_S)
        finally:
            process.kill()
