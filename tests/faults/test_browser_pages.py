"""Row 25: a page in the user's browser posts to the loopback server, by form, by fetch and under
a rebound name.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page

from tests.support.browser import chromium
from tests.support.bundles import make_bundle
from tests.support.keys import ApiKey, await_closed, make_key
from tests.support.pages import deploy_bundle
from tests.support.web_system import WebSystem

EVIL = "evil.example"
KINDS = ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain")
FORM = """([url, kind]) => {
  const form = document.createElement("form");
  Object.assign(form, { action: url, method: "post", enctype: kind });
  const field = document.createElement("input");
  Object.assign(field, { name: '{"text": "/write evil", "x": "', value: '"}' });
  form.append(field);
  document.body.append(form);
  form.submit();
}"""
FETCH = """async ([url, method, mode, kind]) => {
  const body = method === "GET" || method === "DELETE" ? undefined : '{"text": "/write evil"}';
  try {
    const headers = { "Content-Type": kind };
    const answer = await fetch(url, { method, mode, credentials: "include", body, headers });
    return [answer.type, answer.status, await answer.text()];
  } catch (error) {
    return ["error", 0, ""];
  }
}"""
BEACON = """(url) => navigator.sendBeacon(
    url, new Blob(['{"text": "/write evil"}'], { type: "text/plain" }))"""
EMBED = """([url, name]) => new Promise((done) => {
  const node = document.createElement(name);
  Object.assign(node, { onload: () => done("there"), onerror: () => done("nothing") });
  node[name === "object" ? "data" : "src"] = url;
  document.body.append(node);
})"""
SOCKET = """(url) => new Promise((done) => {
  const socket = new WebSocket(url);
  socket.onopen = () => done("open");
  socket.onerror = () => done("refused");
})"""


class Somewhere(BaseHTTPRequestHandler):
    """A foreign web server on another port of this machine."""

    def do_GET(self) -> None:
        body = b"<!doctype html><title>Free tea</title><p>Free tea"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@contextmanager
def somewhere() -> Iterator[int]:
    """Return its port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Somewhere)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Target:
    """A server with a pipeline that must not change."""

    def __init__(
        self, web_system: WebSystem, uid: str, key: ApiKey | None, browser: Browser
    ) -> None:
        self.web_system, self.uid, self.key, self.browser = web_system, uid, key, browser
        self.port = urlsplit(web_system.url).port

    @property
    def paths(self) -> tuple[str, ...]:
        messages = f"/v1/pipelines/{self.uid}/swarms/chat/messages"
        return f"/webhooks/{self.uid}/memory_write_", messages, "/v1/pipelines", "/logout"

    def visit(self, page: Page) -> None:
        """Open the console as its user, logged in if there is a key."""
        page.goto(self.web_system.url)
        if self.key is not None:
            page.fill("#key", self.key.text)
            page.click("button:has-text('Log in')")
        page.wait_for_selector("h1:has-text('Pipelines')")

    def assert_unharmed(self) -> None:
        client = self.web_system.system.client
        assert client.redis.xinfo_stream(f"pipeline:{{{self.uid}}}:in")["entries-added"] == 0
        assert client.log(self.uid) == []
        deployed = self.web_system.get(
            "/v1/pipelines", **(self.key.headers if self.key else {})
        ).json
        assert [(one["pipeline_uid"], one["version"]) for one in deployed["items"]] == [
            (self.uid, 1)
        ]


@pytest.fixture(scope="module", params=["without keys", "with a session"])
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    with WebSystem() as web_system:
        uid = deploy_bundle(web_system.url, make_bundle("victim"))
        web_system.system.client.await_served(uid)
        key = make_key(web_system.system.root) if request.param == "with a session" else None
        if key is not None:
            await_closed(web_system)
        with chromium(f"--host-resolver-rules=MAP {EVIL} 127.0.0.1") as browser:
            yield Target(web_system, uid, key, browser)


@contextmanager
def elsewhere(target: Target, host: str) -> Iterator[Page]:
    """Open a page of another origin in the user's browser."""
    with somewhere() as port, target.browser.new_context() as context:
        page = context.new_page()
        target.visit(page)
        page.goto(f"http://{host}:{port}/")
        yield page


@pytest.mark.parametrize("host", [EVIL, "127.0.0.1"])
def test_a_form_of_another_page_is_refused(target: Target, host: str) -> None:
    with elsewhere(target, host) as page:
        for path, kind in product(target.paths, KINDS):
            with page.expect_navigation() as navigation:
                page.evaluate(FORM, [target.web_system.url + path, kind])
            assert navigation.value.status == 403, (path, kind)
            page.go_back()

    target.assert_unharmed()


@pytest.mark.parametrize("host", [EVIL, "127.0.0.1"])
def test_a_script_of_another_page_can_neither_write_nor_read(target: Target, host: str) -> None:
    with elsewhere(target, host) as page:
        for path in (*target.paths, f"/v1/pipelines/{target.uid}", "/status"):
            for method, mode, kind in (
                ("POST", "no-cors", "text/plain"),
                ("POST", "cors", "application/json"),
                ("PUT", "cors", "application/json"),
                ("DELETE", "cors", "application/json"),
                ("GET", "cors", "text/plain"),
                ("GET", "no-cors", "text/plain"),
            ):
                seen = page.evaluate(FETCH, [target.web_system.url + path, method, mode, kind])
                assert seen[0] in ("opaque", "error") and not seen[2], (path, method, mode, seen)
            page.evaluate(BEACON, target.web_system.url + path)
        assert page.evaluate(SOCKET, f"ws://127.0.0.1:{target.port}{target.paths[1]}") == "refused"

    target.assert_unharmed()


@pytest.mark.parametrize("host", [EVIL, "127.0.0.1"])
def test_an_embedded_resource_reveals_nothing_to_another_page(target: Target, host: str) -> None:
    paths = (
        f"/v1/pipelines/{target.uid}",
        "/v1/pipelines/nope",
        f"/v1/pipelines/{target.uid}/records",
        "/live",
        "/metrics",
        "/static/logo.svg",
    )

    with elsewhere(target, host) as page:
        seen = {
            page.evaluate(EMBED, [target.web_system.url + path, name])
            for path, name in product(paths, ("object", "img", "script"))
        }

    assert seen == {"nothing"}


def test_a_rebound_host_name_is_refused(target: Target) -> None:
    with elsewhere(target, EVIL) as page:
        loaded = page.goto(f"http://{EVIL}:{target.port}/")
        assert loaded is not None and loaded.status == 421
        for path in (*target.paths, f"/v1/pipelines/{target.uid}", "/status", "/live", "/login"):
            for method, kind in (
                ("POST", "application/json"),
                ("PUT", "application/json"),
                ("DELETE", "application/json"),
                ("GET", "text/plain"),
                ("POST", "text/plain"),
            ):
                seen = page.evaluate(FETCH, [path, method, "same-origin", kind])
                assert (seen[0], seen[1]) == ("basic", 421), (path, method, seen)
                assert target.uid not in seen[2].replace(path, "")
        assert page.evaluate(SOCKET, f"ws://{EVIL}:{target.port}{target.paths[1]}") == "refused"

    target.assert_unharmed()


def test_the_users_own_page_still_works(target: Target) -> None:
    with target.browser.new_context() as context:
        page = context.new_page()
        target.visit(page)
        seen = page.evaluate(
            FETCH, [f"/v1/pipelines/{target.uid}", "GET", "same-origin", "application/json"]
        )

    assert seen[1] == 200
