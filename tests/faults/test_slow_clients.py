"""Row 9: a client that sends its request a byte at a time is disconnected in time and delays
nobody.
"""

import selectors
import socket
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.faults.conftest import RecordFigures
from tests.support.abuse import Bystander
from tests.support.http import ask, read_answer
from tests.support.listener import Listener
from tests.support.waiting import LATE_S, wait_for
from tests.support.web_system import WebSystem

SLOW, PATIENCE_S, BYTE_EVERY_S = 500, 10, 0.25
HEADERS = b"GET /live HTTP/1.1\r\nHost: localhost\r\nX-Slow: " + b"x" * 100
BODY = (
    b"POST /webhooks/%s/memory_write_ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"
)


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    """A server with the default limits."""
    with WebSystem() as web_system:
        yield web_system


@pytest.fixture(scope="module")
def quick() -> Iterator[WebSystem]:
    """A server whose read timeout is two seconds."""
    with WebSystem(worker=False, WEB__READ_TIMEOUT_S="2") as quick:
        yield quick


class Crowd:
    """Connections that send a byte now and then. Use it as a context."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._place, self._selector = (parts.hostname, parts.port), selectors.DefaultSelector()
        self.answers: list[bytes] = []
        self.slowest_s = 0.0

    def __enter__(self) -> "Crowd":
        return self

    def __exit__(self, *_: object) -> None:
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self._selector.close()

    def add(self, count: int, at_once: bytes, slowly: bytes) -> None:
        """Add connections. `at_once` is sent immediately and the rest byte by byte; without a
        rest they are silent.
        """
        for _ in range(count):
            connection = socket.create_connection(self._place, timeout=10)
            connection.sendall(at_once)
            connection.setblocking(False)
            self._selector.register(
                connection, selectors.EVENT_READ, [time.monotonic(), slowly, b""]
            )

    def send_until_cut(self, within_s: float) -> int:
        """Send until all connections are closed; return how many are left after the time limit."""
        deadline = time.monotonic() + within_s
        while (keys := list(self._selector.get_map().values())) and time.monotonic() < deadline:
            for key in keys:
                self._send_byte(key)
            pause_until = time.monotonic() + BYTE_EVERY_S
            while (left_s := pause_until - time.monotonic()) > 0 and self._selector.get_map():
                for key, _ in self._selector.select(left_s):
                    self._hear(key)
        return len(self._selector.get_map())

    def _send_byte(self, key: selectors.SelectorKey) -> None:
        slowly = key.data[1]
        try:
            key.fileobj.send(slowly[:1])  # type: ignore[union-attr]
            key.data[1] = slowly[1:]
        except OSError:
            pass  # it is closed; its answer can still be read

    def _hear(self, key: selectors.SelectorKey) -> None:
        try:
            said = key.fileobj.recv(65536)  # type: ignore[union-attr]
        except ConnectionError:
            said = b""
        if said:
            key.data[2] += said
            return
        self.slowest_s = max(self.slowest_s, time.monotonic() - key.data[0])
        self.answers.append(key.data[2])
        self._selector.unregister(key.fileobj)
        key.fileobj.close()  # type: ignore[union-attr]


def test_500_slow_senders_are_disconnected_and_health_answers(
    web_system: WebSystem, record_figures: RecordFigures
) -> None:
    uid = web_system.deploy()

    with Bystander(web_system.url, "/ready") as others, Crowd(web_system.url) as crowd:
        crowd.add(SLOW // 2, b"", HEADERS)
        crowd.add(SLOW // 2, BODY % uid.encode(), b"x" * 900)
        left = crowd.send_until_cut(PATIENCE_S + 10)

    told = sum(answer.startswith(b"HTTP/1.1 408 ") for answer in crowd.answers)
    record_figures(
        9,
        "500 senders of a byte at a time",
        cut=len(crowd.answers),
        told_408=told,
        last_after_s=crowd.slowest_s,
        others_s=others.slowest_s,
    )
    assert left == 0
    assert crowd.slowest_s < PATIENCE_S + LATE_S
    assert told > SLOW * 0.9
    assert (
        b"web.read_timeout_s" in crowd.answers[0]
        and b"application/problem+json" in crowd.answers[0]
    )
    assert others.slowest_s < 1 + LATE_S and not others.failures


def test_a_silent_connection_is_closed_without_an_answer(quick: WebSystem) -> None:
    with Crowd(quick.url) as crowd:
        crowd.add(20, b"", b"")
        assert crowd.send_until_cut(5) == 0

    assert set(crowd.answers) == {b""}


def test_a_second_request_on_a_connection_must_arrive_in_time(quick: WebSystem) -> None:
    with Crowd(quick.url) as crowd:
        crowd.add(
            10,
            b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"GET /live HTTP/1.1\r\nX: " + b"x" * 100,
        )
        assert crowd.send_until_cut(5) == 0

    assert {answer.count(b"HTTP/1.1 ") for answer in crowd.answers} == {2}
    assert all(b"HTTP/1.1 408 " in answer for answer in crowd.answers)


def test_kept_connections_long_waits_and_listeners_stay_open() -> None:
    with WebSystem(WEB__READ_TIMEOUT_S="1") as web_system:
        uid = web_system.deploy()
        parts = urlsplit(web_system.url)
        with (
            Listener(web_system.url, uid) as listener,
            socket.create_connection((parts.hostname, parts.port), 10) as kept,
        ):
            request = b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n"
            kept.sendall(request)
            assert read_answer(kept)[0].status == 200
            web_system.system.workers[-1].stop()

            began = time.monotonic()
            waited = web_system.say(uid, "/write tea", query="?wait=3")

            assert waited.status == 504 and time.monotonic() - began > 2.5
            kept.sendall(request)
            assert read_answer(kept)[0].status == 200
            web_system.system.start_worker()
            assert listener.texts(1) == ["/write tea"]


def test_connections_over_the_limit_get_an_answer_and_others_are_served() -> None:
    with (
        WebSystem(worker=False, WEB__MAX_CONNECTIONS="20") as web_system,
        Crowd(web_system.url) as crowd,
    ):
        parts = urlsplit(web_system.url)
        with socket.create_connection((parts.hostname, parts.port), 10) as kept:
            kept.sendall(b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert read_answer(kept)[0].status == 200
            crowd.add(19, b"", b"")
            wait_for(lambda: ask(web_system.url, "GET", "/live").status == 503, "it is full")

            refused = ask(web_system.url, "GET", "/live")

            assert (
                "web.max_connections" in refused.problem[1]
                and refused.headers["retry-after"] == "1"
            )
            kept.sendall(b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert read_answer(kept)[0].status == 200
        wait_for(lambda: ask(web_system.url, "GET", "/live").status == 200, "there is room again")
