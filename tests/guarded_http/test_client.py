"""The guarded client connects to no address that the rules do not allow, however it is written."""

import asyncio
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from memrelay.guarded_http.client import (
    Answer,
    AnswerTooLong,
    GuardedClient,
    OutgoingRefused,
    Request,
    RequestFailed,
    send_blocking,
)
from memrelay.guarded_http.rules import Guard, OutgoingRules, PrivateHost, shorten_url


class Listener(ThreadingHTTPServer):
    """Answers on all addresses of this machine, and counts connections."""

    address_family, daemon_threads = socket.AF_INET6, True

    def __init__(self) -> None:
        self.connections, self.headers = 0, list[dict[str, str]]()
        self.status, self.body = 200, b"hello"
        super().__init__(("::", 0), Handler)

    def server_bind(self) -> None:
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def process_request(self, *given: Any) -> None:
        self.connections += 1
        super().process_request(*given)


class Handler(BaseHTTPRequestHandler):
    server: Listener
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.headers.append(dict(self.headers.items()))
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.send_header("Location", f"http://127.0.0.1:{self.server.server_port}/next")
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def listener() -> Iterator[Listener]:
    with Listener() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def listed(listener: Listener, host: str = "127.0.0.1", **options: Any) -> OutgoingRules:
    private = (PrivateHost(host, listener.server_port, frozenset({"http"}), frozenset({"one"})),)
    return OutgoingRules(private=private, **options)


def send(rules: OutgoingRules, *requests: Request, pipeline: str = "one") -> list[Answer]:
    async def run() -> list[Answer]:
        async with GuardedClient(rules, "http", pipeline) as client:
            return [await client.send(request) for request in requests]

    return asyncio.run(run())


def get(listener: Listener, host: str = "127.0.0.1", path: str = "/", **options: Any) -> Request:
    return Request("GET", f"http://{host}:{listener.server_port}{path}", **options)


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "127.0.0.1.", "127.1", "127.0.1", "2130706433", "0x7f000001"),
        *("0177.0.0.1", "017700000001", "0x7f.1", "0", "0.0.0.0", "localhost", "LOCALHOST."),
        *("[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:0:0:1]"),
        *("[::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[64:ff9b:1::7f00:1]"),
        *("10.0.0.1", "169.254.169.254", "[fe80::1%25lo]", "[fd00:ec2::254]", "127.0.0.1%2f"),
        *("\uff11\uff12\uff17.0.0.1", "\u2460\u2461\u2466.0.0.1", "127。0。0。1"),
        *("%31%32%37.0.0.1", "10.0.0.8\\@127.0.0.1", "10.0.0.8#@127.0.0.1", "a@127.0.0.1"),
    ],
)
def test_no_connection_opens_to_an_address_that_is_not_public(
    listener: Listener, host: str
) -> None:
    rules = OutgoingRules(http=True, ports=frozenset({listener.server_port}))

    with pytest.raises((OutgoingRefused, RequestFailed)):
        send(rules, get(listener, host, timeout_s=5))

    assert listener.connections == 0


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "::ffff:127.0.0.1", "169.254.169.254", "10.0.0.1"]
)
def test_a_name_with_one_private_address_is_refused(
    listener: Listener, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", Resolver(["8.8.8.8", address]))
    rules = OutgoingRules(http=True, ports=frozenset({listener.server_port}))

    with pytest.raises(OutgoingRefused, match=r"evil\.example is "):
        send(rules, get(listener, "evil.example"))

    assert listener.connections == 0


class Resolver:
    """Answers each question with the next list of addresses, and then with the last one."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers, self.asked = list(answers), 0

    def __call__(self, _host: str, port: int, **_: Any) -> list[Any]:
        self.asked += 1
        addresses = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in addresses]


def test_a_resolver_that_changes_its_answer_is_asked_once_for_each_connection(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolver = Resolver(["127.0.0.1"], ["169.254.169.254"])
    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    request = get(listener, "service.example")

    send(listed(listener, "service.example"), request, request)
    assert (resolver.asked, listener.connections) == (1, 1)

    with pytest.raises(OutgoingRefused, match="no setting allows it"):
        send(listed(listener, "service.example"), request)
    assert listener.connections == 1


def test_a_connection_to_another_address_than_the_checked_one_gets_no_request(
    listener: Listener,
) -> None:
    """The peer is checked as well, in case a connection leads elsewhere."""
    rules = listed(listener)
    peers = Guard(OutgoingRules(), "http", "one")

    async def run() -> None:
        async with GuardedClient(rules, "http", "one") as client:
            client._session.connector._guard = peers
            await client.send(get(listener))

    with pytest.raises(OutgoingRefused, match="which is not public"):
        asyncio.run(run())
    assert listener.headers == []


def test_a_listed_host_is_open_only_for_its_port_purpose_and_pipelines(listener: Listener) -> None:
    rules = listed(listener)

    assert send(rules, get(listener))[0].body == b"hello"
    for refused in (
        lambda: send(rules, get(listener), pipeline="two"),
        lambda: send_blocking(rules, "models", get(listener), "one"),
        lambda: send(rules, get(listener, "localhost")),
        lambda: send(rules, Request("GET", f"http://127.0.0.1:{listener.server_port + 1}/")),
    ):
        with pytest.raises(OutgoingRefused):
            refused()
    assert listener.connections == 1


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_our_own_servers_are_refused_except_for_webhooks_with_counted_hops(
    listener: Listener, host: str
) -> None:
    port = listener.server_port
    rules = listed(listener, host, own=(("0.0.0.0", port),), web_port=port)
    hook = "/webhooks/one/hook"

    for request in (get(listener, host, "/v1/pipelines", hop=1), get(listener, host, hook)):
        with pytest.raises(OutgoingRefused, match="own web server, bus or storage"):
            send(rules, request)
    assert listener.connections == 0

    with pytest.raises(OutgoingRefused, match=r"worker\.max_hops is 32"):
        send(rules, get(listener, host, hook, hop=33))
    send(rules, get(listener, host, hook, hop=3))
    assert listener.headers[0]["Memrelay-Hop"] == "3"


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("http://93.184.216.34/", "not https"),
        ("https://93.184.216.34:8443/", "port 8443 is not allowed"),
        ("https://user:secret@93.184.216.34/", "user or password"),
        ("ftp://93.184.216.34/", "must be absolute"),
        ("http+unix://%2Frun%2Fdocker.sock/", "must be absolute"),
        ("unix:/run/docker.sock", "must be absolute"),
        ("file:///etc/passwd", "must be absolute"),
        ("/v1", "must be absolute"),
        ("https://", "must be absolute"),
        ("https://[::1", "malformed"),
        ("https://a.example:99999/", "malformed"),
        ("https://a.example/\r\nHost: b", "must be absolute"),
    ],
)
def test_the_text_of_a_url_is_checked(url: str, rule: str) -> None:
    with pytest.raises(OutgoingRefused, match=rule) as caught:
        Guard(OutgoingRules(), "http").check_url(url)
    assert "secret" not in str(caught.value).replace("from a secret", "")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]", "10.0.0.1"])
def test_a_private_host_is_to_be_listed_whatever_its_scheme_and_port(host: str) -> None:
    name = host.lower().strip("[]")
    rule = f"list {name}, port 11434 in `outgoing.private` for models, and restart"

    for scheme in ("http", "https"):
        with pytest.raises(OutgoingRefused, match=re.escape(rule)):
            Guard(OutgoingRules(), "models").check_url(f"{scheme}://{host}:11434/v1")
    for port in (11434, 11435):
        guard = Guard(
            OutgoingRules(private=(PrivateHost(name, 11434, frozenset(("models",))),)), "models"
        )
        with nullcontext() if port == 11434 else pytest.raises(OutgoingRefused, match=name):
            guard.check_url(f"http://{host}:{port}/v1")


def test_settings_allow_other_ports_and_plain_http() -> None:
    rules = OutgoingRules(ports=frozenset({8443, 8080}), http=True)
    guard = Guard(rules, "http")

    for url in ("https://93.184.216.34:8443/", "http://93.184.216.34/", "http://a.example:8080"):
        guard.check_url(url)


def test_a_redirect_is_an_answer(listener: Listener) -> None:
    listener.status = 302

    (answer,) = send(listed(listener), get(listener))

    assert (answer.status, len(listener.headers)) == (302, 1)


def test_an_answer_has_a_bound(listener: Listener) -> None:
    listener.body = b"a" * 100_000
    rules = listed(listener)

    with pytest.raises(AnswerTooLong, match="more than 1000 bytes"):
        send(rules, get(listener, most_bytes=1000))
    (answer,) = send(rules, get(listener, most_bytes=1000, cuts_off=True))
    assert (answer.body, answer.is_cut_off) == (b"a" * 1000, True)


def test_a_server_that_never_answers_ends_at_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        rules = OutgoingRules(private=(PrivateHost("127.0.0.1", port, frozenset({"http"})),))

        with pytest.raises(RequestFailed, match="does not answer: TimeoutError"):
            send(rules, Request("GET", f"http://127.0.0.1:{port}/", timeout_s=0.1))


def test_servers_that_hang_hold_up_no_other_request(listener: Listener) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=256) as silent:
        ports = (silent.getsockname()[1], listener.server_port)
        private = tuple(PrivateHost("127.0.0.1", port, frozenset({"http"})) for port in ports)

        async def run() -> Answer:
            async with GuardedClient(OutgoingRules(private=private), "http") as client:
                hanging = Request("GET", f"http://127.0.0.1:{ports[0]}/", timeout_s=60)
                tasks = [asyncio.create_task(client.send(hanging)) for _ in range(120)]
                await asyncio.sleep(0.1)
                answer = await client.send(get(listener, timeout_s=9))
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                return answer

        assert asyncio.run(run()).body == b"hello"


def test_the_path_of_a_url_is_not_shown() -> None:
    shown = shorten_url("https://hooks.slack.com/services/T0/B0/secret?token=abc")

    assert shown.startswith("https://hooks.slack.com/…#")
    assert "secret" not in shown and "abc" not in shown
    assert shown != shorten_url("https://hooks.slack.com/services/T0/B0/other?token=abc")
