"""Errors are problem JSON (RFC 9457), never tracebacks, and the server keeps serving."""

import asyncio
from collections.abc import Iterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from memrelay.web.server.errors import handle_errors
from tests.support.http import Answer, ask, send_raw
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem

MOST = 1 << 20  # bus.max_message_bytes


@pytest.fixture(autouse=True)
def still_serving(web_system: WebSystem) -> Iterator[None]:
    yield
    assert web_system.get("/live").json == {"live": True}


@pytest.fixture(scope="module")
def uid(web_system: WebSystem) -> str:
    return web_system.deploy()


def raw(web_system: WebSystem, request: bytes) -> Answer:
    return send_raw(web_system.url, request)


def post(web_system: WebSystem, uid: str, *lines: bytes, body: bytes = b"") -> Answer:
    """Send a POST with raw header lines."""
    head = [f"POST /webhooks/{uid}/memory_write_ HTTP/1.1".encode(), b"Host: localhost", *lines]
    return raw(web_system, b"\r\n".join(head) + b"\r\n\r\n" + body)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/v1/pipelines/{uid}/swarms/chat/messages", "GET,HEAD,POST"),
        ("GET", "/webhooks/{uid}/memory_write_", "POST"),
        ("PATCH", "/v1/pipelines/{uid}", "DELETE,GET,HEAD,PUT"),
        ("POST", "/live", "GET,HEAD"),
        ("PUT", "/v1/pipelines", "GET,HEAD,POST"),
        ("OPTIONS", "/status", "GET,HEAD"),
        ("GET", "/api/v1/pd/webhook/t/a/b", "POST"),
        ("PROPFIND", "/v1/pipelines", "GET,HEAD,POST"),
    ],
)
def test_a_wrong_method_gets_the_allowed_methods(
    web_system: WebSystem, uid: str, method: str, path: str, allowed: str
) -> None:
    answer = ask(web_system.url, method, path.format(uid=uid))

    assert answer.problem[0] == 405
    assert answer.headers["allow"] == allowed


@pytest.mark.parametrize(
    "path",
    [
        "/nowhere",
        "/v1/pipelines/",
        "/webhooks/a",
        "/webhooks/a/b/c",
        "/../../live",
        "/%2e%2e/live",
        "/v1//pipelines",
        "//evil.example/live",
        "/live;x",
        "/v1/pipelines/a/../../../live/x",
        "/webhooks/..%2f..%2flive",
        "/static/..%2f..%2fapp.py",
    ],
)
def test_an_unknown_path_is_404_and_none_escapes_the_root(web_system: WebSystem, path: str) -> None:
    assert (
        raw(web_system, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()).problem[0]
        == 404
    )


def test_an_internal_error_is_logged_with_its_route_and_without_the_token(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail(request: web.Request) -> web.Response:
        raise ValueError

    async def ask_for_it() -> int:
        app = web.Application(middlewares=[handle_errors])
        app.router.add_post("/api/v1/pd/webhook/{token}/{alias}", fail)
        async with TestClient(TestServer(app)) as client:
            return (await client.post("/api/v1/pd/webhook/tea-with-milk/inbox")).status

    assert asyncio.run(ask_for_it()) == 500
    (record,) = [one for one in caplog.records if one.message == "request_failed"]
    assert vars(record)[
        "route"
    ] == "/api/v1/pd/webhook/{token}/{alias}" and "tea-with-milk" not in str(vars(record))


def test_head_of_an_unknown_path_has_no_body(web_system: WebSystem) -> None:
    answer = ask(web_system.url, "HEAD", "/nowhere")

    assert (answer.status, answer.body) == (404, b"")


@pytest.mark.parametrize(
    "uid",
    ["a%00b", "a%0d%0aX-Injected:%20yes", "%ff", "..", "%2e%2e%2f", "a" * 4000, "%F0%9F%8D%B5"],
)
def test_an_odd_uid_is_not_found(web_system: WebSystem, uid: str) -> None:
    answer = raw(
        web_system, f"GET /v1/pipelines/{uid} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    )

    assert answer.problem[0] == 404
    assert "x-injected" not in answer.headers
    assert len(answer.body) < 1000


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /li\0ve HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /live HTTP/1.1\r\nHost: localhost\r\nX: a\0b\r\n\r\n",
        b"GET /live HTTP/1.1\nHost: localhost\n\n",
        b"\x16\x03\x01 hello\r\n\r\n",
        b"GET /live HTTP/1.1\r\n\r\n",
        b"GET /live HTTP/1.1\r\nHost: localhost\r\nX: secret\x01\r\n\r\n",
        b"GET /live HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"FOO /live HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /live HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 20_000 + b"\r\n\r\n",
        b"GET /live HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 3000 + b"\r\n",
        b"POST /v1/pipelines HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/pipelines HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n"
        b"Content-Length: 4\r\n\r\nabc",
        b"POST /v1/pipelines HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
)
def test_malformed_http_is_rejected_without_a_traceback(
    web_system: WebSystem, request_: bytes
) -> None:
    answer = raw(web_system, request_)

    assert answer.problem[0] == 400 and answer.headers["x-request-id"]
    assert b"Traceback" not in answer.body and b"secret" not in answer.body
    assert "Traceback" not in web_system.web.output
    assert "secret" not in web_system.web.output


@pytest.mark.parametrize("path", [b"/live", b"/v1/pipelines", b"/nowhere"])
def test_an_unknown_expectation_is_a_problem(web_system: WebSystem, path: bytes) -> None:
    answer = raw(
        web_system, b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\nExpect: tea\r\n\r\n"
    )

    status, detail = answer.problem

    assert (status, answer.headers["content-type"]) == (417, "application/problem+json")
    assert "100-continue" in detail and answer.headers["x-request-id"]


def test_a_long_request_line_is_reported_as_such(web_system: WebSystem) -> None:
    answer = raw(web_system, b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")

    assert "longer than 8190 bytes" in answer.problem[1] and "aaa" not in answer.problem[1]


@pytest.mark.parametrize(
    ("encoding", "status", "rule"),
    [
        (b"gzip", 400, "the body is not gzip"),
        (b"deflate", 415, "use gzip, or send the body uncompressed"),
    ],
)
def test_a_compressed_body_is_rejected(
    web_system: WebSystem, uid: str, encoding: bytes, status: int, rule: str
) -> None:
    lines = b"Content-Encoding: " + encoding, b"Content-Length: 8"

    found, detail = post(web_system, uid, *lines, body=b"not gzip").problem

    assert found == status and rule in detail


def test_a_body_with_the_identity_encoding_is_accepted(web_system: WebSystem, uid: str) -> None:
    assert (
        post(
            web_system, uid, b"Content-Encoding: identity", b"Content-Length: 3", body=b"tea"
        ).status
        == 202
    )


def test_a_body_with_malformed_chunks_is_rejected(web_system: WebSystem, uid: str) -> None:
    assert (
        post(web_system, uid, b"Transfer-Encoding: chunked", body=b"zz\r\nx\r\n0\r\n\r\n").status
        == 400
    )


def test_a_chunked_body_is_read_completely(web_system: WebSystem) -> None:
    uid = web_system.deploy()

    taken = post(
        web_system, uid, b"Transfer-Encoding: chunked", body=b"2\r\nte\r\n1\r\na\r\n0\r\n\r\n"
    )

    web_system.system.client.await_quiet(uid)
    assert taken.status == 202
    assert web_system.system.contents(uid) == ["tea"]


def test_a_long_body_is_rejected(web_system: WebSystem, uid: str) -> None:
    declared = post(web_system, uid, b"Content-Length: %d" % (1 << 40), body=b"x" * (MOST + 1))
    chunked = post(
        web_system,
        uid,
        b"Transfer-Encoding: chunked",
        body=b"%x\r\n" % (2 * MOST) + b"x" * (MOST + 1),
    )

    assert [answer.problem[0] for answer in (declared, chunked)] == [413, 413]
    assert "web.webhook_bytes" in declared.problem[1]


def test_a_body_whose_envelope_is_too_long_leaves_a_dead_letter_without_it(
    web_system: WebSystem,
) -> None:
    uid = web_system.deploy()

    # Each control character becomes an escape of six.
    assert web_system.webhook(uid, "memory_write_", b"x" + b"\x01" * (MOST - 1)).problem[0] == 413
    assert (
        web_system.webhook(uid, "memory_write_", b"x" * (MOST - 500), query="?wait=60").status
        == 200
    )
    letters = wait_for(lambda: web_system.system.dead_letters(uid), "the refusal is kept")
    assert [one.data for one in letters] == [b""]


def test_a_problem_has_all_members(web_system: WebSystem) -> None:
    answer = web_system.get("/nowhere")

    assert answer.headers["content-type"].startswith("application/problem+json")
    assert answer.json == {
        "type": "about:blank",
        "title": "Not found",
        "status": 404,
        "detail": "no such path; docs/http.md lists all paths",
    }
