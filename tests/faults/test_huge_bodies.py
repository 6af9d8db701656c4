"""Row 8: bodies that try to exhaust the server are refused within a second, with little memory,
and barely delay other clients. A webhook keeps those that are within its size.
"""

import gzip
import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from urllib.parse import urlsplit

import pytest

from tests.faults.conftest import RecordFigures
from tests.support.abuse import Bystander, Footprint
from tests.support.http import Answer, read_answer
from tests.support.waiting import LATE_S, PATIENCE_S
from tests.support.web_system import WebSystem

MOST_MB, MOST_S, OTHERS_MOST_S = 20, 1.0, 0.25  # the goals
PATHS = [
    "/webhooks/{uid}/memory_write_",
    "/v1/pipelines/{uid}/swarms/chat/messages",
    "/v1/pipelines",
]
MB = 1 << 20


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    """One server for all tests."""
    with WebSystem() as web_system:
        web_system.get("/metrics")  # loads the modules that it needs
        yield web_system


@pytest.fixture(scope="module")
def uid(web_system: WebSystem) -> str:
    return web_system.deploy()


def whole(body: bytes, *headers: str) -> bytes:
    """Return the rest of a request with a Content-Length."""
    return "\r\n".join([*headers, f"Content-Length: {len(body)}", "", ""]).encode() + body


def chunked(body: bytes, size: int) -> bytes:
    """Return the rest of a request in chunks of `size`."""
    pieces = [
        b"%x\r\n%s\r\n" % (len(piece), piece)
        for at in range(0, len(body), size)
        if (piece := body[at : at + size])
    ]
    return b"Transfer-Encoding: chunked\r\n\r\n" + b"".join(pieces) + b"0\r\n\r\n"


def keys(count: int) -> bytes:
    return b"{" + b",".join(b'"%d":0' % at for at in range(count)) + b"}"


BODIES: dict[str, Callable[[], bytes]] = {
    "a message of 10 MB": lambda: whole(json.dumps({"text": "x" * 10 * MB}).encode()),
    "10 MB in chunks": lambda: chunked(b"x" * 10 * MB, 65_536),
    "200 MB in gzip": lambda: whole(gzip.compress(bytes(200 * MB)), "Content-Encoding: gzip"),
    "200 MB in gzip in chunks": lambda: (
        b"Content-Encoding: gzip\r\n" + chunked(gzip.compress(bytes(200 * MB)), 4096)
    ),
    "100,000 chunks of a byte": lambda: chunked(b"x" * 100_000, 1),
    "JSON 100,000 deep": lambda: whole(b"[" * 100_000 + b"]" * 100_000),
    "objects 100,000 deep": lambda: whole(b'{"a":' * 100_000 + b"0" + b"}" * 100_000),
    "JSON 100,000 deep in a part": lambda: whole(
        b'{"args": [{"text": "x", "more": %s}]}' % (b"[" * 100_000 + b"]" * 100_000)
    ),
    "a million keys": lambda: whole(keys(1_000_000)),
    "as many keys as a megabyte holds": lambda: whole(keys(99_000)),
}
KEPT = {
    "JSON 100,000 deep",
    "objects 100,000 deep",
    "JSON 100,000 deep in a part",
    "as many keys as a megabyte holds",
}


@pytest.mark.parametrize("path", PATHS, ids=["webhook", "messages", "bundle"])
@pytest.mark.parametrize("name", BODIES)
def test_an_oversized_body_is_refused_at_once(
    web_system: WebSystem, uid: str, name: str, path: str, record_figures: RecordFigures
) -> None:
    request = (
        f"POST {path.format(uid=uid)} HTTP/1.1\r\nHost: localhost\r\n".encode() + BODIES[name]()
    )
    footprint = Footprint(web_system.web.pid)

    with Bystander(web_system.url, "/ready") as others:
        answer, took_s = send(web_system.url, request)

    record_figures(
        8,
        f"{name}, {path.split('/')[1]}",
        answer=answer.status,
        s=took_s,
        mb=footprint.grown_mb,
        others_s=others.slowest_s,
    )
    if name in KEPT and path.startswith("/webhooks/"):
        assert answer.status == 202
    else:
        status, detail = answer.problem
        assert status in (400, 408, 413, 415, 422) and detail
    assert took_s < MOST_S + LATE_S
    assert footprint.grown_mb < MOST_MB
    assert others.slowest_s < OTHERS_MOST_S + LATE_S and not others.failures


def test_many_concurrent_bodies_take_a_few_times_their_size(
    web_system: WebSystem, uid: str, record_figures: RecordFigures
) -> None:
    request = (
        f"POST /webhooks/{uid}/memory_write_ HTTP/1.1\r\nHost: localhost\r\n".encode()
        + whole(keys(99_000))
    )
    footprint = Footprint(web_system.web.pid)
    connections = [connect(web_system.url) for _ in range(20)]

    with Bystander(web_system.url, "/ready") as others:
        for connection in connections:
            connection.sendall(request)
        statuses = {read_answer(connection)[0].status for connection in connections}
    for connection in connections:
        connection.close()

    record_figures(
        8,
        "20 bodies with as many keys as a megabyte holds",
        mb=footprint.grown_mb,
        others_s=others.slowest_s,
    )
    assert statuses == {202}
    # of a megabyte each: the body, its text and its envelope
    assert footprint.grown_mb < MOST_MB + 4 * len(connections)
    assert not others.failures


def test_refused_bodies_leave_no_content_and_valid_ones_are_accepted(
    web_system: WebSystem, uid: str
) -> None:
    answer = web_system.webhook(uid, "memory_write_", "tea", query="?wait=60")

    assert "guid" in answer.texts[0]
    contents = web_system.system.contents(uid)
    assert "tea" in contents and all(len(one) <= MB for one in contents)
    letters = web_system.system.dead_letters(uid)
    assert all(one.data == b"" and "the webhook was refused" in one.error for one in letters)


def connect(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE_S)


def send(url: str, request: bytes) -> tuple[Answer, float]:
    """Return the answer and its delay in seconds; the server may stop reading."""
    with connect(url) as connection:
        began = time.monotonic()
        with suppress(BrokenPipeError, ConnectionResetError):  # it has answered already
            connection.sendall(request)
        return read_answer(connection)[0], time.monotonic() - began
