"""The consent page in a browser that comes from the page of another site."""

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Page

from tests.support.axe import find_violations
from tests.support.browser import chromium
from tests.support.oauth import OAuthSystem

pytestmark = pytest.mark.slow


@contextmanager
def client_site(oauth: OAuthSystem) -> Iterator[str]:
    """Serve the page of a client, on another site than the server, and its redirect URI."""
    link = ""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = f'<a href="{link}">Connect</a>' if self.path == "/" else "Connected"
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site = f"http://localhost:{server.server_port}"
    client = oauth.client(redirect_uris=[f"{site}/callback"], client_name="Claude")
    client.redirect_uri = f"{site}/callback"
    link = f"{oauth.url}/oauth/authorize?{client.query()}".replace("&", "&amp;")
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def connect(page: Page, site: str) -> None:
    page.goto(f"{site}/")
    page.get_by_role("link", name="Connect").click()


@pytest.mark.parametrize("width", [1280, 390])
def test_a_user_logs_in_allows_and_returns_to_the_client(oauth: OAuthSystem, width: int) -> None:
    with client_site(oauth) as site, chromium() as browser:
        page = browser.new_page(viewport={"width": width, "height": 900})
        faults: list[str] = []
        page.on("console", lambda message: faults.append(message.text))
        connect(page, site)
        page.fill("#key", oauth.user.key.text)
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("heading", name="Connect Claude?").wait_for()

        assert page.get_by_role("checkbox", checked=True).count() == 2
        assert find_violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.get_by_role("button", name="Allow").click()
        page.get_by_text("Connected").wait_for()
        assert page.url.startswith(f"{site}/callback?code=mrc_")

        # The session is known from now on, also after a link from another site.
        connect(page, site)
        page.get_by_role("button", name="Deny").click()
        page.get_by_text("Connected").wait_for()
        assert "error=access_denied" in page.url
        assert not [text for text in faults if "Security" in text or "Refused" in text], faults
