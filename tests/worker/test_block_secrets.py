"""Secrets of blocks in the worker: their values reach only the service."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import orjson
import pytest

from tests.support.bundles import STORE, Json, make_agent, make_bundle
from tests.support.system import TestSystem
from tests.support.waiting import wait_for

FIRST, SECOND = "sk-first-7f3a", "sk-second-91cc"


class Service(ThreadingHTTPServer):
    """A stub service that keeps the keys of its requests."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.keys: list[str] = []


class _Handler(BaseHTTPRequestHandler):
    server: Service

    def do_GET(self) -> None:
        self.server.keys.append(self.headers["Authorization"])
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def service() -> Iterator[Service]:
    with Service() as service:
        threading.Thread(target=service.serve_forever, args=(0.01,), daemon=True).start()
        yield service
        service.shutdown()


def files_with(folder: Path, *values: str) -> list[Path]:
    return [
        path
        for path in folder.rglob("*")
        if path.is_file() and any(value.encode() in path.read_bytes() for value in values)
    ]


def test_a_secret_reaches_the_service_and_nothing_else(service: Service) -> None:
    with TestSystem() as system:
        key = system.root / "secrets" / "key"
        key.parent.mkdir(parents=True)
        key.write_text(FIRST)
        args = {"url": f"http://127.0.0.1:{service.server_port}/"}
        sender = make_agent("sender", "test_sends_secret", args, senders="User")
        bundles = [make_bundle("sending", sender), make_bundle("later", *make_deferred_calls(args))]
        worker = system.start_worker(bundles=bundles, secrets=["file:key", "env:NO_SUCH_KEY"])

        assert system.client.ask("sending", "file:key")[-1].text == "204"
        wrong = system.client.enter("sending", "file:other")
        assert "file:other is not a secret for blocks" in error(system, wrong)
        missing = system.client.enter("sending", "env:NO_SUCH_KEY")
        assert "env:NO_SUCH_KEY is not set" in error(system, missing)
        assert_deferred_calls_get_it(system)
        key.write_text(SECOND)
        await_second(system, service)

        assert worker.stop() == 0
        assert service.keys[:3] == [FIRST] * 3
        assert files_with(system.folder, FIRST, SECOND) == [key]


@pytest.mark.parametrize("key", [FIRST, f"{FIRST}\nX-Other: 1"])
def test_a_secret_in_an_exception_is_redacted(key: str) -> None:
    args = {"url": "nowhere", "key": "file:key"}
    sender = make_agent("sender", "test_sends_secret", args, senders="User")
    bundles = [make_bundle("sending", sender), make_bundle("later", *make_deferred_calls(args))]
    with TestSystem() as system:
        file = system.root / "secrets" / "key"
        file.parent.mkdir(parents=True)
        file.write_text(key)
        worker = system.start_worker(bundles=bundles, secrets=["file:key"])

        letter = error(system, system.client.enter("sending", "hello"))
        system.client.enter("later", "hello")
        system.client.enter("later", "hello", sender="Other")
        wait_for(
            lambda: len(system.client.log("later")) == 5, "both deferred calls have failed", 10
        )

        assert worker.stop() == 0
        texts = [letter, *[said.text for said in system.client.log("later")]]
        expected = "[secret]" if key == FIRST else "file:key has control characters"
        assert sum(expected in text for text in texts) >= 3
        assert files_with(system.folder, FIRST) == [file]


def make_deferred_calls(args: Json) -> list[Json]:
    """Return an async block, whose answer another agent shows, and a block with an executor."""
    keyed = args | {"key": "file:key"}
    return [
        make_agent("async", "test_sends_secret_in_deferred_call", keyed, senders="User"),
        make_agent("teller", "test_tells_part", {"memory_id": STORE}, senders="async"),
        make_agent("asking", "test_asks_with_secret", keyed, senders="Other"),
    ]


def assert_deferred_calls_get_it(system: TestSystem) -> None:
    """Check that both kinds of deferred calls read the secret, and that a forwarded user counts."""
    system.client.enter("later", "hello")
    system.client.enter("later", "hello", sender="Other")
    wait_for(lambda: len(system.client.log("later")) == 5, "both deferred calls have answered", 10)
    texts = {said.sender: said.text for said in system.client.log("later")}
    part = orjson.loads(texts["teller"])
    assert (texts["asking"], part["status"], part["user_id"]) == ("204", "204", "u1")


def error(system: TestSystem, ident: str) -> str:
    return system.await_dead_letter("sending", ident).error


def await_second(system: TestSystem, service: Service) -> None:
    """Ask until the changed file takes effect, which is within a second."""
    for _ in range(1000):
        system.client.ask("sending", "file:key")
        if service.keys[-1] == SECOND:
            return
    raise AssertionError("the changed file has no effect")
