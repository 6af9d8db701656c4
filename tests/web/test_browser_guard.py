"""Requests that a hostile web page would make a browser send have no effect."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from memrelay.web.server import browser_guard
from tests.support.bundles import make_bundle
from tests.support.http import Answer, ask, send_raw
from tests.support.listener import Listener
from tests.support.web_system import WebSystem

SECURITY_HEADERS = [name.lower() for name in browser_guard.SECURITY_HEADERS]
EVIL = "https://evil.example"
FORMS = {  # content types that a form or fetch with mode "no-cors" sends without a preflight
    "urlencoded": ("application/x-www-form-urlencoded", b"text=tea"),
    "JSON in plain text": ("text/plain", b'{"text": "tea", "x": "="}'),
    "multipart": (
        "multipart/form-data; boundary=x",
        b'--x\r\nContent-Disposition: form-data; name="text"\r\n\r\ntea\r\n--x--',
    ),
    "nothing": ("", b'{"text": "tea"}'),
    "JSON": ("application/json", b'{"text": "tea"}'),
}
ORIGINS = {
    "a foreign page": {"Origin": EVIL, "Sec-Fetch-Site": "cross-site"},
    "a sandboxed frame": {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
    "another port": {"Origin": "http://127.0.0.1:1", "Sec-Fetch-Site": "same-site"},
    "another name of loopback": {"Origin": "http://localhost", "Sec-Fetch-Site": "cross-site"},
    "an old browser": {"Origin": EVIL},
    "a page that hides its origin": {"Sec-Fetch-Site": "cross-site"},
    "a name that begins like ours": {"Origin": "http://127.0.0.1.evil.example"},
    "an origin that is none": {"Origin": "http://["},
    "an origin that is no text": {"Origin": "http://\xe9"},
}


@pytest.fixture
def uid(web_system: WebSystem) -> Iterator[str]:
    """Deploy an empty pipeline and assert at the end that it is still empty."""
    uid = web_system.deploy()
    yield uid
    assert (
        web_system.system.client.redis.xinfo_stream(f"pipeline:{{{uid}}}:in")["entries-added"] == 0
    )
    assert web_system.system.client.log(uid) == []


def paths(uid: str) -> tuple[str, ...]:
    return (
        f"/webhooks/{uid}/memory_write_",
        f"/v1/pipelines/{uid}/swarms/chat/messages",
        "/v1/pipelines",
    )


@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize("form", FORMS)
def test_a_page_of_another_origin_cannot_post(
    web_system: WebSystem, uid: str, origin: str, form: str
) -> None:
    kind, body = FORMS[form]
    headers = ORIGINS[origin] | ({"Content-Type": kind} if kind else {})

    refused = [ask(web_system.url, "POST", path, body, headers) for path in paths(uid)]

    assert [answer.problem[0] for answer in refused] == [403] * 3


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize("origin", ORIGINS)
def test_a_page_of_another_origin_cannot_change_pipelines(
    web_system: WebSystem, uid: str, method: str, origin: str
) -> None:
    headers = ORIGINS[origin] | {"Content-Type": "application/json"}

    assert (
        ask(web_system.url, method, f"/v1/pipelines/{uid}", make_bundle(uid), headers).problem[0]
        == 403
    )
    assert web_system.get(f"/v1/pipelines/{uid}").json["version"] == 1


def test_a_key_does_not_admit_another_origin(web_system: WebSystem, uid: str) -> None:
    refused = web_system.webhook(uid, "memory_write_", "tea", Origin=EVIL, Authorization="Bearer x")

    assert refused.problem[0] == 403


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8765",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "2130706433",
        "0.0.0.0",
        "[::]",
        "",
        "evil.example\t",
    ],
)
def test_a_rebound_host_name_is_rejected(web_system: WebSystem, uid: str, host: str) -> None:
    origin = {
        "Origin": f"http://{host.strip()}",
        "Sec-Fetch-Site": "same-origin",
    }  # as a rebound page sends it
    headers = origin | {"Host": host, "Content-Type": "application/json"}

    answers = [
        ask(web_system.url, method, path, b'{"text": "tea"}' if method == "POST" else b"", headers)
        for path in (*paths(uid), "/status", "/live", f"/v1/pipelines/{uid}")
        for method in ("GET", "POST", "DELETE")
    ]

    assert {answer.problem[0] for answer in answers} <= {400, 421}


def test_a_rejected_host_name_gets_the_fix(web_system: WebSystem) -> None:
    status, detail = web_system.get("/live", Host="memory.example").problem

    assert (status, detail) == (
        421,
        "the host name 'memory.example' is not served here; add it to web.hosts to accept it",
    )


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:8765"])
def test_all_names_of_loopback_are_accepted(web_system: WebSystem, host: str) -> None:
    assert web_system.get("/live", Host=host).json == {"live": True}


@pytest.mark.parametrize(
    "kind",
    [
        "application/x-www-form-urlencoded",
        "text/plain",
        "text/plain; application/json",
        "multipart/form-data; boundary=x",
        "",
    ],
)
def test_the_consoles_pages_must_send_json(web_system: WebSystem, uid: str, kind: str) -> None:
    headers = {"Origin": web_system.url, "Sec-Fetch-Site": "same-origin"} | (
        {"Content-Type": kind} if kind else {}
    )

    refused = [
        ask(web_system.url, "POST", path, b'{"text": "tea"}', headers) for path in paths(uid)
    ]

    assert [answer.problem[0] for answer in refused] == [415] * 3


@pytest.mark.parametrize("method", ["DELETE", "PUT"])
def test_a_browser_without_a_content_type_changes_nothing(
    web_system: WebSystem, uid: str, method: str
) -> None:
    assert (
        ask(
            web_system.url, method, f"/v1/pipelines/{uid}", b"", {"Origin": web_system.url}
        ).problem[0]
        == 415
    )
    assert web_system.get(f"/v1/pipelines/{uid}").status == 200


def test_the_consoles_pages_may_send_and_deploy(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    headers = {
        "Origin": web_system.url,
        "Sec-Fetch-Site": "same-origin",
        "Content-Type": "application/json; charset=utf-8",
        "Referer": f"{web_system.url}/",
    }

    sent = ask(web_system.url, "POST", paths(uid)[1], {"text": "/write tea"}, headers)
    replaced = ask(web_system.url, "PUT", f"/v1/pipelines/{uid}", make_bundle(uid), headers)
    removed = ask(web_system.url, "DELETE", f"/v1/pipelines/{uid}", b"", headers)

    assert [answer.status for answer in (sent, replaced, removed)] == [202, 200, 204]


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded"])
def test_other_clients_may_send_any_content_type(web_system: WebSystem, kind: str) -> None:
    uid = web_system.deploy()

    answers = [web_system.post(path, "tea", Content_Type=kind) for path in paths(uid)[:2]]

    assert [answer.status for answer in answers] == [202, 202]


def raw_post(web_system: WebSystem, path: str, *lines: str) -> Answer:
    return send_raw(
        web_system.url,
        "\r\n".join([f"POST {path} HTTP/1.1", *lines, "Content-Length: 3", "", "tea"]).encode(),
    )


def test_repeated_host_or_origin_headers_are_rejected(web_system: WebSystem, uid: str) -> None:
    path, host = paths(uid)[0], f"Host: {urlsplit(web_system.url).netloc}"

    assert raw_post(web_system, path, "Host: localhost", "Host: evil.example").status == 400
    assert raw_post(web_system, path, "Host: evil.example", "Host: localhost").status in (400, 421)
    assert (
        raw_post(
            web_system, path, "Host: localhost", f"Origin: {EVIL}", f"Origin: {web_system.url}"
        ).status
        == 403
    )
    assert raw_post(
        web_system, path, host, f"Origin: {web_system.url}", f"Origin: {EVIL}"
    ).status in (
        400,
        403,
        415,
    )


def test_no_response_allows_another_origin(web_system: WebSystem, uid: str) -> None:
    asked = ask(
        web_system.url,
        "OPTIONS",
        paths(uid)[1],
        b"",
        ORIGINS["a foreign page"]
        | {
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "content-type",
        },
    )
    read = ask(web_system.url, "GET", paths(uid)[1], b"", ORIGINS["a foreign page"])

    assert (asked.status, read.status) == (403, 403)
    assert not [name for name in asked.headers | read.headers if name.startswith("access-control")]


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize(
    ("mode", "dest"),
    [
        ("no-cors", "object"),
        ("no-cors", "image"),
        ("no-cors", "script"),
        ("cors", "empty"),
        ("navigate", "iframe"),
        ("navigate", "object"),
        ("no-cors", "empty"),
    ],
)
def test_a_page_of_another_site_cannot_detect_resources(
    web_system: WebSystem, uid: str, site: str, mode: str, dest: str
) -> None:
    fetch_headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": dest}

    answers = [
        ask(web_system.url, method, path, b"", fetch_headers)
        for method in ("GET", "HEAD")
        for path in (
            f"/v1/pipelines/{uid}",
            "/v1/pipelines/nope",
            f"/pipelines/{uid}",
            "/metrics",
            "/live",
            "/static/logo.svg",
            "/nope",
        )
    ]

    assert {answer.status for answer in answers} == {403}
    assert len({answer.body for answer in answers}) == 2  # GET has a body, HEAD has none


@pytest.mark.parametrize("path", ["/", "/docs", "/v1/pipelines"])
def test_a_link_from_another_site_may_be_followed(web_system: WebSystem, path: str) -> None:
    followed = {
        "Sec-Fetch-Site": "cross-site",
        "Sec-Fetch-Mode": "navigate",
        "Sec-Fetch-Dest": "document",
    }

    assert ask(web_system.url, "GET", path, b"", followed).status == 200


@pytest.mark.parametrize("origin", ORIGINS)
def test_a_page_of_another_origin_cannot_listen(
    web_system: WebSystem, uid: str, origin: str
) -> None:
    with Listener(web_system.url, uid, **ORIGINS[origin]) as listener:
        assert listener.refusal.problem[0] == 403


def test_the_consoles_pages_may_listen(web_system: WebSystem, uid: str) -> None:
    with Listener(
        web_system.url, uid, Origin=web_system.url, Sec_Fetch_Site="same-origin"
    ) as listener:
        assert listener.answer.status == 101


def test_missing_and_existing_pages_have_the_same_security_headers(web_system: WebSystem) -> None:
    existing = web_system.deploy()
    for path in ("/pipelines/{}", "/pipelines/{}/stats", "/pipelines/{}/log", "/v1/pipelines/{}"):
        found, missing = (
            {name: web_system.get(path.format(uid)).headers.get(name) for name in SECURITY_HEADERS}
            for uid in (existing, "ghost")
        )

        assert found == missing and None not in found.values(), path
