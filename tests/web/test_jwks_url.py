"""Key sets at an https URL: when they are read, what is refused, and the copy on disk."""

import asyncio
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from memrelay.web.auth.jwks import KeySetFault, UrlKeys, fetch_key_set
from tests.support.jwts import KeyPair, key_set
from tests.support.tls import Certificates

ONE, TWO = KeyPair("one"), KeyPair("two")


class KeyServer:
    """An https server with a key set. `answers` counts its requests."""

    def __init__(self, certificates: Certificates) -> None:
        self.body, self.status, self.answers, self.pause_s = key_set(ONE), 200, 0, 0.0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.answers += 1
                self.send_response(outer.status)
                self.send_header("Location", f"{outer.url}/elsewhere")
                self.send_header("Content-Length", str(len(outer.body)))
                self.end_headers()
                with suppress(OSError):
                    self._write(outer.body)

            def _write(self, body: bytes) -> None:
                for at in range(len(body)) if outer.pause_s else ():
                    self.wfile.write(body[at : at + 1])
                    time.sleep(outer.pause_s)
                if not outer.pause_s:
                    self.wfile.write(body)

            def log_message(self, *given: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.server, certificates.key_of(certificates.server))
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://localhost:{self._server.server_port}/keys"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """End the server."""
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def server(certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> Iterator[KeyServer]:
    monkeypatch.setenv("SSL_CERT_FILE", certificates.ca)
    # A proxy variable must have no effect.
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    server = KeyServer(certificates)
    yield server
    server.close()


async def kids(keys: UrlKeys) -> list[str]:
    return [key.kid for key in (await keys.get()).keys]


def test_an_unknown_key_id_reads_the_url_again_at_most_once_a_minute(
    server: KeyServer, tmp_path: Path
) -> None:
    now_s = 1000.0

    async def run() -> None:
        nonlocal now_s
        keys = UrlKeys(server.url, tmp_path, private=True, clock=lambda: now_s)
        assert await kids(keys) == ["one"]
        server.body = key_set(TWO)
        now_s += 59
        assert (await keys.refresh(), await kids(keys), server.answers) == (False, ["one"], 1)
        now_s += 1
        await asyncio.gather(*[keys.refresh() for _ in range(5)])
        assert (await kids(keys), server.answers) == (["two"], 2)

    asyncio.run(run())


def test_the_last_good_set_survives_a_bad_answer_and_a_restart(
    server: KeyServer, tmp_path: Path
) -> None:
    async def run() -> None:
        first = UrlKeys(server.url, tmp_path, private=True)
        assert await kids(first) == ["one"]
        server.body = b"{}"
        second = UrlKeys(server.url, tmp_path, private=True)
        await second.start()
        assert await kids(second) == ["one"]
        await second.refresh()
        assert await kids(second) == ["one"]
        await second.stop()

    asyncio.run(run())


def test_an_empty_set_revokes_all_keys_also_after_a_restart(
    server: KeyServer, tmp_path: Path
) -> None:
    async def run() -> None:
        first = UrlKeys(server.url, tmp_path, private=True)
        assert await kids(first) == ["one"]
        server.body = b'{"keys": []}'
        second = UrlKeys(server.url, tmp_path, private=True)
        await second.refresh()
        assert await kids(second) == []
        server.status = 500
        third = UrlKeys(server.url, tmp_path, private=True)
        await third.start()
        assert await kids(third) == []
        await third.stop()

    asyncio.run(run())


def test_a_slow_answer_ends_at_one_deadline(server: KeyServer) -> None:
    server.pause_s, began = 0.1, time.monotonic()

    with pytest.raises(KeySetFault, match="does not answer: TimeoutError"):
        fetch_key_set(server.url, private=True, timeout_s=0.4)
    assert time.monotonic() - began < 15


def test_redirects_large_answers_and_private_addresses_are_refused(server: KeyServer) -> None:
    with pytest.raises(KeySetFault, match=r"not public: set `web\.jwt\.private`"):
        fetch_key_set(server.url, private=False)
    server.status = 302
    with pytest.raises(KeySetFault, match="answers 302"):
        fetch_key_set(server.url, private=True)
    server.status, server.body = 200, b" " * 70_000
    with pytest.raises(KeySetFault, match="more than 64 KiB"):
        fetch_key_set(server.url, private=True)
    assert server.answers == 2


def test_a_server_without_a_trusted_certificate_is_refused(
    server: KeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")

    with pytest.raises(KeySetFault, match="no secure connection"):
        fetch_key_set(server.url, private=True)
