"""The console, a webhook, a WebSocket and MCP below a sub-path, through nginx as documented."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import chromium
from tests.support.console import open_page
from tests.support.http import ask
from tests.support.keys import ApiKey, await_closed, make_key
from tests.support.listener import Listener
from tests.support.mcp_calls import McpCalls
from tests.support.replicated_bus import free_port
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem

pytestmark = pytest.mark.slow

BASE = "/memrelay"
SNIPPET = Path(__file__).parents[2] / "deploy" / "proxy" / "nginx.conf"
MAIN = """daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;
events {{}} http {{ access_log off; {paths} include {folder}/memrelay.conf; }}"""
TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
# An anchor of an SVG has no string as href.
LIST_LINKS = """anchors => anchors.map(
    anchor => new URL(anchor.getAttribute("href"), document.baseURI).href.split("#")[0])"""
PAGES = ("", "/find", "/memories", "/dead-letters", "/keys", "/status", "/docs")


class Proxied(NamedTuple):
    """A server behind nginx. The URL of `system` is that of nginx."""

    system: WebSystem
    key: ApiKey
    uid: str


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if nginx is None:
        pytest.skip("there is no nginx; apt-get install nginx-light installs it")
    folder, port = tmp_path_factory.mktemp("nginx"), free_port()
    public_url = f"http://127.0.0.1:{port}{BASE}"
    with WebSystem() as system:
        key = make_key(system.system.root)
        await_closed(system)
        system.start_web(
            WEB__BASE_PATH=BASE, WEB__PUBLIC_URL=public_url, WEB__TRUSTED_PROXIES="127.0.0.1"
        )
        uid = system.deploy()
        make_configuration(folder, port, urlsplit(system.url).port or 0)
        process = subprocess.Popen([nginx, "-c", folder / "nginx.conf", "-p", folder])
        try:
            system.url = public_url
            wait_for(lambda: answers(system), "nginx answers")
            yield Proxied(system, key, uid)
        finally:
            process.terminate()
            process.wait()


def make_configuration(folder: Path, port: int, upstream: int) -> None:
    """Write the documented configuration with these ports and without TLS."""
    text = SNIPPET.read_text().replace("127.0.0.1:8765", f"127.0.0.1:{upstream}")
    text = text.replace("listen 443 ssl", f"listen 127.0.0.1:{port}")
    text = re.sub(r" *ssl_certificate.*\n", "", text)
    assert str(upstream) in text and str(port) in text and "ssl" not in text
    (folder / "memrelay.conf").write_text(text)
    paths = " ".join(f"{name}_temp_path {folder}/{name};" for name in TEMPORARY)
    (folder / "nginx.conf").write_text(MAIN.format(folder=folder, paths=paths))


def answers(system: WebSystem) -> bool:
    try:
        return system.get("/live").status == 200
    except OSError:
        return False


def test_programs_reach_the_server(proxied: Proxied) -> None:
    system, key, uid = proxied
    assert system.get("/v1/pipelines").problem[0] == 401
    hook = system.webhook(uid, "memory_write_", {"text": "tea"}, **key.headers)
    assert hook.status in (200, 202)
    assert (
        "guid" in system.say(uid, {"text": "/write tea"}, query="?wait=60", **key.headers).texts[0]
    )
    host = system.url.removesuffix(BASE)
    metadata = ask(host, "GET", f"/.well-known/oauth-authorization-server{BASE}").json
    refused = system.post(f"/mcp/{uid}", {})
    assert metadata["issuer"] == system.url
    assert (
        f"{host}/.well-known/oauth-protected-resource{BASE}/mcp/{uid}"
        in (refused.headers["www-authenticate"])
    )
    calls = McpCalls(system.url, f"/mcp/{uid}", key)
    assert calls("tools/list")["tools"]
    with Listener(system.url, uid, **key.headers) as listener:
        assert listener.answer.status == 101


def test_the_console_works_below_the_base_path(proxied: Proxied) -> None:
    """Every link of the main pages leads to a page. `open_page` refuses requests elsewhere."""
    system, key, uid = proxied
    with chromium() as browser, open_page(browser, system, "/login") as page:
        page.locator("#key").fill(key.text)
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("button", name="Log out")).to_be_visible()
        pages = [*PAGES, *(f"/pipelines/{uid}{tab}" for tab in ("", "/memory", "/memories"))]
        pages += [f"/pipelines/{uid}{tab}" for tab in ("/recipes", "/bundle")]
        links = {link for path in pages for link in list_links(page, system.url + path)}
        assert len(links) > 20
        for link in sorted(links):
            assert link.startswith(system.url)
            assert page.request.get(link).status == 200, link
        send_message(page, system.url, uid)
        page.get_by_role("button", name="Log out").click()
        expect(page).to_have_url(f"{system.url}/login")


def list_links(page: Page, url: str) -> set[str]:
    """Open a page that refreshes itself, and return the addresses of its links."""
    answer = page.goto(url)
    assert answer is not None and answer.status == 200, url
    page.wait_for_timeout(1200)  # the first refresh
    expect(page.locator("#refresh-fault")).to_be_hidden()
    found = page.eval_on_selector_all("a[href]", LIST_LINKS)
    return {link for link in found if link}


def send_message(page: Page, url: str, uid: str) -> None:
    page.goto(f"{url}/pipelines/{uid}")
    page.locator("#text").fill("/search tea")
    page.locator("#text").press("Enter")
    exchange = page.locator("#exchanges > li").last
    expect(exchange).to_have_attribute("aria-busy", "false")
    expect(exchange).to_contain_text("tea")
