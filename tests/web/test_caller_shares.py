"""One caller cannot take all connections and bodies, and bodies are read after authentication."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

from tests.support.bundles import make_bundle, make_commands, make_uid
from tests.support.http import Answer, ask, read_answer
from tests.support.keys import ApiKey, await_closed, make_key
from tests.support.listener import Listener
from tests.support.signing import make_secret, signed
from tests.support.web_system import WebSystem

SECRET = make_secret("shares")
# The share of a caller: ten connections, and 335,544 bytes of incomplete bodies.
SHARE, MAX_HELD = "0.005", 10


class Shared(NamedTuple):
    """A server with keys of two callers for a pipeline."""

    web_system: WebSystem
    uid: str
    first: ApiKey
    second: ApiKey

    def open(self, head: str, **headers: str) -> socket.socket:
        """Send the head of a request, and return the connection."""
        parts = urlsplit(self.web_system.url)
        connection = socket.create_connection((parts.hostname, parts.port), 20)
        lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        connection.sendall("\r\n".join([head, "Host: localhost", *lines, "", ""]).encode())
        return connection

    def answer(self, head: str, **headers: str) -> Answer:
        """Return the answer to the head of a request whose body never arrives."""
        with self.open(head, Content_Length="9", **headers) as connection:
            return read_answer(connection)[0]

    def status(self, key: ApiKey) -> int:
        return ask(self.web_system.url, "GET", "/status", b"", key.headers).status


@pytest.fixture(scope="module")
def shared() -> Iterator[Shared]:
    with WebSystem(worker=False, secrets={"SHARES": SECRET}, WEB__CALLER_SHARE=SHARE) as web_system:
        agents = make_commands()
        agents[0] |= {"wf_webhook_secret": "env:SHARES"}
        bundle = make_bundle(uid := make_uid(), *agents)
        assert web_system.post("/v1/pipelines", bundle).status == 201
        keys = [make_key(web_system.system.root) for _ in range(2)]
        await_closed(web_system)
        yield Shared(web_system, uid, *keys)


def test_listeners_of_one_key_leave_room_for_others(shared: Shared) -> None:
    url, uid = shared.web_system.url, shared.uid
    with ExitStack() as stack:
        for _ in range(MAX_HELD):
            listener = stack.enter_context(Listener(url, uid, **shared.first.headers))
            assert listener.answer.status == 101

        refused = stack.enter_context(Listener(url, uid, **shared.first.headers))
        others = stack.enter_context(Listener(url, uid, **shared.second.headers))

        assert refused.refusal.status == 503 and b"web.caller_share" in refused.refusal.body
        assert others.answer.status == 101


def test_silent_connections_make_room_for_a_caller_of_the_same_address(shared: Shared) -> None:
    place = urlsplit(shared.web_system.url)
    with ExitStack() as stack:
        silent = [
            stack.enter_context(socket.create_connection((place.hostname, place.port), 20))
            for _ in range(2 * MAX_HELD)
        ]

        assert [shared.status(key) for key in (shared.first, shared.second)] == [200, 200]
        assert silent[0].recv(1) == b""


def test_signed_webhooks_without_a_body_make_room_for_others(shared: Shared) -> None:
    head = f"POST /webhooks/{shared.uid}/dispatch_write_ HTTP/1.1"
    forged = signed(b"tea", make_secret("forged"))
    with ExitStack() as stack:
        for _ in range(2 * MAX_HELD):
            stack.enter_context(shared.open(head, Content_Length="3", **forged))

        assert [shared.status(key) for key in (shared.first, shared.second)] == [200, 200]


def test_idle_connections_of_a_key_make_room_for_its_next_request(shared: Shared) -> None:
    with ExitStack() as stack:
        for _ in range(MAX_HELD + 2):
            head = "GET /status HTTP/1.1"
            idle = stack.enter_context(shared.open(head, **shared.first.headers))
            assert read_answer(idle)[0].status == 200


def test_unfinished_bodies_of_one_key_leave_room_for_others(shared: Shared) -> None:
    head = f"POST /v1/pipelines/{shared.uid}/swarms/chat/messages HTTP/1.1"
    with ExitStack() as stack:
        for size in (300_000, 400_000):
            given = {"Content_Length": "900000", **shared.first.headers}
            body = stack.enter_context(shared.open(head, **given))
            body.sendall(b"x" * size)
        refused = read_answer(body)[0]

        sent = ask(
            shared.web_system.url, "POST", head.split()[1], b"x" * 300_000, shared.second.headers
        )

    assert refused.problem[0] == 503 and "web.caller_share" in refused.problem[1]
    assert sent.status == 202


@pytest.mark.parametrize(
    ("make_headers", "fault"),
    [
        (dict, "this webhook accepts"),
        (lambda: {"Authorization": "Bearer wrong"}, "this webhook accepts"),
        (lambda: signed(b"", SECRET, age_s=400), "differs from this server's clock"),
        (
            lambda: signed(b"", SECRET) | {"webhook-signature": "v1,x"},
            "no webhook-signature matches",
        ),
        (lambda: {"webhook-signature": "v1,x"}, "the header webhook-id is missing"),
    ],
)
def test_a_webhook_is_refused_before_its_body_arrives(
    shared: Shared, make_headers: Callable[[], dict[str, str]], fault: str
) -> None:
    for alias in ("dispatch_write_", "ghost"):
        refused = shared.answer(f"POST /webhooks/{shared.uid}/{alias} HTTP/1.1", **make_headers())

        assert refused.problem[0] == 401 and fault in refused.problem[1]


def test_a_signed_webhook_needs_its_body(shared: Shared) -> None:
    path = f"/webhooks/{shared.uid}/dispatch_write_"

    sent = ask(shared.web_system.url, "POST", path, b"tea", signed(b"tea", SECRET))
    forged = ask(shared.web_system.url, "POST", path, b"milk", signed(b"tea", SECRET))

    assert (sent.status, forged.status) == (202, 401)
