"""Login by form and cookie. The browser does not keep the key."""

import html
import re
from urllib.parse import urlencode

import pytest

from tests.support.browser import chromium
from tests.support.http import Answer, ask
from tests.support.keys import make_key, revoke
from tests.support.listener import Listener
from tests.support.pages import text_of
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem


def own_form_headers(web_system: WebSystem) -> dict[str, str]:
    """Return the headers that a browser sends with the console's own form."""
    return {
        "Origin": web_system.url,
        "Sec-Fetch-Site": "same-origin",
        "Content-Type": "application/x-www-form-urlencoded",
    }


def log_in(web_system: WebSystem, key: str, *, goal: str = "/", **headers: str) -> Answer:
    return ask(
        web_system.url,
        "POST",
        "/login",
        urlencode({"key": key, "next": goal}),
        own_form_headers(web_system) | headers,
    )


def cookie_of(answer: Answer) -> dict[str, str]:
    return {"Cookie": answer.headers["set-cookie"].partition(";")[0]}


def test_a_session_gives_access_to_pages_api_and_sockets(keyed: WebSystem) -> None:
    uid, key = keyed.deploy(), make_key(keyed.system.root, "read", "publish")

    answer = log_in(keyed, key.text, goal=f"/pipelines/{uid}")
    cookie = cookie_of(answer)

    assert (answer.status, answer.headers["location"]) == (303, f"/pipelines/{uid}")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(
        answer.headers["set-cookie"].split("; ")
    )
    assert "Secure" not in answer.headers["set-cookie"]
    assert key.text not in str(answer.headers) and key.text[16:] not in str(answer.headers)
    assert "Log out" in text_of(ask(keyed.url, "GET", f"/pipelines/{uid}", b"", cookie))
    sent = ask(
        keyed.url,
        "POST",
        f"/v1/pipelines/{uid}/swarms/chat/messages?wait=60",
        {"text": "/write tea"},
        own_form_headers(keyed) | cookie | {"Content-Type": "application/json"},
    )
    assert "guid" in sent.texts[0]
    assert ask(keyed.url, "DELETE", f"/v1/pipelines/{uid}", b"", cookie).status == 403
    with Listener(keyed.url, uid, Origin=keyed.url, **cookie) as listener:
        assert listener.answer.status == 101


def test_behind_a_tls_proxy_the_cookie_is_secure(keyed: WebSystem) -> None:
    answer = log_in(
        keyed, make_key(keyed.system.root).text, Origin=keyed.url.replace("http:", "https:")
    )

    assert "Secure" in answer.headers["set-cookie"].split("; ")


@pytest.mark.parametrize(
    "query", ["?swarm=memory", "?swarm=%E8%8C%B6&page=2", "?swarm=a%26b%2Fc%22%3E"]
)
def test_the_login_returns_to_the_selected_swarm(keyed: WebSystem, query: str) -> None:
    place = f"/pipelines/{keyed.deploy()}{query}"
    asked = ask(keyed.url, "GET", place)
    form = ask(keyed.url, "GET", asked.headers["location"])
    (goal,) = re.findall(r'name="next" value="([^"]*)"', form.body.decode())

    answer = log_in(keyed, make_key(keyed.system.root).text, goal=html.unescape(goal))

    assert (asked.status, answer.status, answer.headers["location"]) == (303, 303, place)


@pytest.mark.parametrize(
    "goal",
    [
        "//evil.example",
        "https://evil.example",
        "/\\evil.example",
        "/v1/pipelines",
        "",
        "/pipelines/a/b/c/d/e",
        "/pipelines/a\n",
        "/?a=\r\nb",
        "/?é",
        "//evil.example/?a=b",
        f"/?{'a' * 2001}",
    ],
)
def test_the_login_redirects_only_to_console_pages(keyed: WebSystem, goal: str) -> None:
    assert log_in(keyed, make_key(keyed.system.root).text, goal=goal).headers["location"] == "/"


@pytest.mark.parametrize("key", ["", "mr_x", f"mr_{'0' * 12}_{'0' * 64}", "ü", "<script>"])
def test_an_invalid_key_gets_the_form_with_the_reason(keyed: WebSystem, key: str) -> None:
    answer = log_in(keyed, key)

    assert (answer.status, "set-cookie" in answer.headers) == (401, False)
    assert "key" in text_of(answer) and b"<script>" not in answer.body


@pytest.mark.parametrize("body", [b"\xff", b"key=" + b"x" * 9000, b"&".join([b"a=1"] * 20)])
def test_a_malformed_form_is_rejected(keyed: WebSystem, body: bytes) -> None:
    assert ask(keyed.url, "POST", "/login", body, own_form_headers(keyed)).status == 400


def test_another_origin_can_neither_log_in_nor_out(keyed: WebSystem) -> None:
    key = make_key(keyed.system.root)
    cookie = cookie_of(log_in(keyed, key.text))
    foreign = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}

    refused = [
        ask(
            keyed.url,
            "POST",
            path,
            urlencode({"key": key.text}),
            own_form_headers(keyed) | cookie | foreign,
        )
        for path in ("/login", "/logout")
    ]

    assert [answer.problem[0] for answer in refused] == [403, 403]
    assert ask(keyed.url, "GET", "/status", b"", cookie).status == 200


def test_a_session_ends_at_logout_and_with_its_key(keyed: WebSystem) -> None:
    key = make_key(keyed.system.root)
    first, second = (cookie_of(log_in(keyed, key.text)) for _ in range(2))

    left = ask(keyed.url, "POST", "/logout", b"", own_form_headers(keyed) | first)

    assert (left.status, left.headers["location"]) == (303, "/login")
    assert "Max-Age=0" in left.headers["set-cookie"]
    assert [ask(keyed.url, "GET", "/status", b"", cookie).status for cookie in (first, second)] == [
        401,
        200,
    ]
    revoke(keyed.system.root, key)
    wait_for(
        lambda: ask(keyed.url, "GET", "/status", b"", second).status == 401, "the session has ended"
    )


def test_without_keys_the_login_redirects_to_the_overview(web_system: WebSystem) -> None:
    answer = web_system.get("/login")

    assert (answer.status, answer.headers["location"]) == (303, "/")


def test_a_person_logs_in_chats_and_logs_out(keyed: WebSystem) -> None:
    uid, key = keyed.deploy(), make_key(keyed.system.root, "read", "publish")
    with chromium() as browser:
        page = browser.new_page()
        page.goto(f"{keyed.url}/pipelines/{uid}")
        assert page.url.endswith(f"/login?next=/pipelines/{uid}")

        page.fill("#key", key.text)
        page.click("button:has-text('Log in')")
        page.wait_for_url(f"{keyed.url}/pipelines/{uid}")
        page.fill("#text", "/write tea")
        page.click("button:has-text('Send')")
        page.wait_for_selector("#exchanges .answer")
        kept = page.evaluate(
            "document.cookie + JSON.stringify(localStorage) + JSON.stringify(sessionStorage)"
        )
        assert "memrelay_session" not in kept and key.text[16:] not in kept + page.url
        page.wait_for_selector(".messages .text")

        page.click("button:has-text('Log out')")
        page.wait_for_url(f"{keyed.url}/login")
        page.goto(keyed.url)
        assert page.url.endswith("/login")
    assert keyed.system.contents(uid) == ["tea"]


def test_an_open_page_reports_the_end_of_its_session(keyed: WebSystem) -> None:
    uid, key = keyed.deploy(), make_key(keyed.system.root, "read", "publish")
    with chromium() as browser:
        page = browser.new_page()
        page.goto(f"{keyed.url}/login?next=/pipelines/{uid}")
        page.fill("#key", key.text)
        page.click("button:has-text('Log in')")
        page.wait_for_url(f"{keyed.url}/pipelines/{uid}")

        page.fill("#text", "/write tea")

        page.context.clear_cookies()

        page.wait_for_selector("#refresh-fault:has-text('You are logged out. Log in again.')")
        page.click("button:has-text('Send')")
        page.wait_for_selector(
            "#exchanges :text('You are logged out, and the message was not sent.')"
        )


def test_an_open_page_leads_to_the_login_and_back(keyed: WebSystem) -> None:
    uid, key = keyed.deploy(), make_key(keyed.system.root, "read")
    with chromium() as browser:
        page = browser.new_page()
        page.goto(f"{keyed.url}/login?next=/pipelines/{uid}?swarm=chat")
        page.fill("#key", key.text)
        page.click("button:has-text('Log in')")
        page.wait_for_url(f"{keyed.url}/pipelines/{uid}?swarm=chat")

        page.context.clear_cookies()

        page.wait_for_selector("#key")
        assert page.url.startswith(f"{keyed.url}/login?next=")
        page.fill("#key", key.text)
        page.click("button:has-text('Log in')")
        page.wait_for_url(f"{keyed.url}/pipelines/{uid}?swarm=chat")


def test_a_key_without_read_can_log_in_again(keyed: WebSystem) -> None:
    blind, seeing = (make_key(keyed.system.root, scope) for scope in ("publish", "read"))
    with chromium() as browser:
        page = browser.new_page()
        page.goto(f"{keyed.url}/login")
        for key in (blind, seeing):
            page.fill("#key", key.text)
            page.click("button:has-text('Log in')")
            if key is blind:
                page.click("text=Log in with another key")

        page.wait_for_selector("h1:has-text('Home')")
