"""An HTTP client on the standard library that uses none of Memrelay's code. Each answer to `ask`
passes the checks that conftest.py registers.
"""

import json
import socket
from collections.abc import Callable, Mapping
from http.client import HTTPConnection
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.support.waiting import PATIENCE_S


class Answer(NamedTuple):
    """An answer; header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """Return the parsed body."""
        return json.loads(self.body)

    @property
    def problem(self) -> tuple[int, str]:
        """Return (status, detail) of a problem document (RFC 9457), which is checked."""
        assert self.headers["content-type"].startswith("application/problem+json"), self
        told = self.json
        assert told["status"] == self.status, self
        assert told["type"] and told["title"], self
        return self.status, told["detail"]

    @property
    def texts(self) -> list[str]:
        """Return the texts of the results."""
        assert self.status == 200, self
        return [result["args"][0]["text"] for result in self.json["results"]]


checks: list[
    Callable[[str, str, Answer], None]
] = []  # each is called with the method, the path and the answer


def ask(
    url: str,
    method: str,
    path: str,
    body: bytes | dict[str, Any] | str = b"",
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Send one request on a new connection. An underscore in a header name stands for a hyphen.

    `path` lies below that of the URL.
    """
    data = (
        json.dumps(body).encode()
        if isinstance(body, dict)
        else body.encode()
        if isinstance(body, str)
        else body
    )
    named = {name.replace("_", "-"): value for name, value in (headers or {}).items()}
    connection = HTTPConnection(urlsplit(url).netloc, timeout=120)
    try:
        connection.request(method, urlsplit(url).path + path, body=data or None, headers=named)
        got = connection.getresponse()
        answer = Answer(
            got.status, {name.lower(): value for name, value in got.getheaders()}, got.read()
        )
    finally:
        connection.close()
    for check in checks:
        check(method, path, answer)
    return answer


def send_raw(url: str, request: bytes) -> Answer:
    """Send raw bytes; return what the server answers until it closes, or one answer with a
    Content-Length.
    """
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE_S) as connection:
        connection.sendall(request)
        return read_answer(connection)[0]


def read_answer(connection: socket.socket) -> tuple[Answer, bytes]:
    """Return one answer and the bytes after it."""
    got = b""
    while b"\r\n\r\n" not in got and (chunk := connection.recv(65536)):
        got += chunk
    head, _, body = got.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    assert first.startswith("HTTP/1."), got
    headers = {
        name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
    }
    wanted = int(headers.get("content-length", 0))
    while len(body) < wanted and (chunk := connection.recv(65536)):
        body += chunk
    return Answer(int(first.split(" ")[1]), headers, body[:wanted]), body[wanted:]
