"""A server below a sub-path, and behind a reverse proxy that terminates TLS."""

import html
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from memrelay.web.console import frame
from tests.support.child import CHECKOUT
from tests.support.http import Answer, send_raw
from tests.support.keys import ApiKey, await_closed, make_key
from tests.support.listener import Listener
from tests.support.mcp_calls import McpCalls
from tests.support.web_system import WebSystem

BASE, PUBLIC = "/memrelay", "https://memory.example/memrelay"
FORWARDED = {
    "Host": "memory.example",
    "X-Forwarded-Proto": "https",
    "X-Forwarded-For": "203.0.113.7",
    "Origin": "https://memory.example",
    "Sec-Fetch-Site": "same-origin",
}
NAMES = {"nginx.conf": "nginx", "Caddyfile": "Caddy"}
TEMPLATES = Path(frame.__file__).parent / "templates"
# An address in an attribute, or the path of a call, that does not begin with the base path.
ROOTLESS = re.compile(r'(?:href|src|action|data-[a-z]+)="(?:[A-Z]+ )?/')


@pytest.fixture(scope="module")
def proxied() -> Iterator[tuple[WebSystem, ApiKey]]:
    """Start a system whose web server trusts a proxy on this machine, with a key."""
    with WebSystem(WEB__PUBLIC_URL=PUBLIC) as system:
        # Without a key, a tunnel would let any caller in.
        assert system.get("/live", Host="memory.example").problem[0] == 421
        key = make_key(system.system.root)
        await_closed(system)
        system.start_web(
            WEB__BASE_PATH=f"{BASE}/",
            WEB__TRUSTED_PROXIES="127.0.0.1,10.0.0.0/8",
            WEB__RATE="1",
            WEB__BURST="10",
        )
        yield system, key


def log_in(system: WebSystem, key: ApiKey, target: str, **headers: str) -> Answer:
    form = {"Content-Type": "application/x-www-form-urlencoded"} | FORWARDED | headers
    return system.post("/login", urlencode({"key": key.text, "next": target}), **form)


def get_at_root(system: WebSystem, path: str, host: str = "localhost") -> Answer:
    lines = (f"GET {path} HTTP/1.1", f"Host: {host}", "Accept: text/html", "Connection: close")
    return send_raw(system.url, "\r\n".join([*lines, "", ""]).encode())


def test_everything_lies_below_the_base_path(proxied: tuple[WebSystem, ApiKey]) -> None:
    system, key = proxied
    uid, bearer = system.deploy(), key.headers
    assert system.url.endswith(BASE)
    for path in ("/", "/v1/pipelines", "/openapi.json", "/login", f"/webhooks/{uid}/memory_write_"):
        assert get_at_root(system, path).status == 404
    page = system.get("/", Accept="text/html")
    assert (page.status, page.headers["location"]) == (303, f"{BASE}/login")
    assert get_at_root(system, BASE).headers["location"] == f"{BASE}/"

    assert "guid" in system.say(uid, {"text": "/write tea"}, query="?wait=60", **bearer).texts[0]
    assert McpCalls(system.url, f"/mcp/{uid}", key)("tools/list")["tools"]
    with Listener(system.url, uid, **bearer) as listener:
        assert listener.answer.status == 101
    openapi = system.get("/openapi.json").json
    assert openapi["servers"] == [{"url": PUBLIC}]
    assert "/v1/pipelines" in openapi["paths"]


def test_the_console_shows_and_follows_the_public_url(proxied: tuple[WebSystem, ApiKey]) -> None:
    system, key = proxied
    uid = system.deploy()
    logged_in = log_in(system, key, f"/pipelines/{uid}")
    parts = logged_in.headers["set-cookie"].split("; ")
    assert logged_in.headers["location"] == f"{BASE}/pipelines/{uid}"
    assert {f"Path={BASE}", "Secure", "HttpOnly", "SameSite=Strict"} <= set(parts)
    page = html.unescape(system.get(f"/pipelines/{uid}", Cookie=parts[0]).body.decode())
    assert f"curl '{PUBLIC}/v1/pipelines/{uid}/" in page
    links = set(re.findall(r'(?:href|src|action|data-refresh)="(/[^"]*)"', page))
    assert links
    assert [link for link in links if not link.startswith(f"{BASE}/")] == []
    assert log_in(system, key, "/", Origin="https://evil.example").problem[0] == 403


def test_templates_begin_all_addresses_with_the_base_path() -> None:
    faults = [
        (file.name, found)
        for file in TEMPLATES.rglob("*.html")
        for found in ROOTLESS.findall(file.read_text())
    ]
    assert faults == []


@pytest.mark.parametrize("name", ["nginx.conf", "Caddyfile"])
def test_the_documents_quote_the_configurations(name: str) -> None:
    """The files are tested or validated, so the documents repeat them line by line."""
    lines = [
        line.strip() for line in (CHECKOUT / "deploy" / "proxy" / name).read_text().split("\n")
    ]
    blocks = (CHECKOUT / "docs" / "proxies.md").read_text().split(f"## {NAMES[name]}\n")[1]
    block = [line.strip() for line in blocks.split("```")[1].strip().split("\n")][name[0] == "n" :]

    assert "\n".join(block) in "\n".join(lines)


def test_the_rate_limit_counts_clients_and_not_the_proxy(
    proxied: tuple[WebSystem, ApiKey],
) -> None:
    """A client cannot choose its address: only what trusted proxies have added counts."""
    system, _ = proxied

    def ask(forwarded_for: str) -> int:
        headers = {"Host": "memory.example", "X-Forwarded-For": forwarded_for}
        return system.get("/live", **headers).status

    spent = [ask(f"198.51.100.{number}, 203.0.113.9, 10.1.2.3") for number in range(30)]
    assert spent[0] == 200 and spent[-1] == 429
    assert ask("203.0.113.10, 10.1.2.3") == 200


def test_only_trusted_proxies_are_believed(keyed: WebSystem) -> None:
    answer = keyed.get("/live", X_Forwarded_Host="memory.example", X_Forwarded_For="203.0.113.7")
    assert answer.status == 200
    assert keyed.get("/live", Host="memory.example").problem[0] == 421


def test_a_trusted_proxy_restores_the_host(proxied: tuple[WebSystem, ApiKey]) -> None:
    system, _ = proxied
    assert system.get("/live", X_Forwarded_Host="memory.example").status == 200
    assert system.get("/live", X_Forwarded_Host="evil.example").problem[0] == 421


@pytest.mark.parametrize(
    "host", ["LOCALHOST", "localhost.", "Localhost.:8765", "[::1]:80", "[0:0:0:0:0:0:0:1]"]
)
def test_spellings_of_an_accepted_host_pass(web_system: WebSystem, host: str) -> None:
    assert web_system.get("/v1/pipelines", Host=host).status == 200


@pytest.mark.parametrize("host", ["10.1.2.3", "10.1.2.3:8765", "[fd00::7]:8765"])
def test_probes_by_address_pass_and_other_requests_do_not(
    web_system: WebSystem, proxied: tuple[WebSystem, ApiKey], host: str
) -> None:
    for path in ("/live", "/ready", "/healthz"):
        assert web_system.get(path, Host=host).status == 200
        assert proxied[0].get(path, Host=host).status == 200
        assert get_at_root(proxied[0], path, host).status == 200
        assert web_system.get(path, Host="10.1.2.3.evil.example").problem[0] == 421
    assert web_system.get("/v1/pipelines", Host=host).problem[0] == 421
    assert web_system.post("/ready", Host=host).problem[0] == 421
