"""Statement 8 of the console: a key sees only its pipelines on every page, without the controls
that it may not use, and its requests are refused.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import chromium
from tests.support.console import open_page, save_screenshot
from tests.support.console_content import Content, fill_console
from tests.support.http import ask
from tests.support.keys import await_closed, make_key, revoke
from tests.support.web_system import WebSystem

pytestmark = pytest.mark.slow

SMALL: Any = {"width": 1280, "height": 800}
# What only keys with more scopes see: forms of the public API, and their buttons.
# Forms that change something. A reader may run recipes and assemble contexts.
READS = "[data-call^='GET'], [data-call$='/recipes/execute'], [data-call$='/assembly/assemble']"
CONTROLS = f"form[data-call]:not({READS}), #send"


@pytest.fixture
def web_system() -> Iterator[WebSystem]:
    with WebSystem() as found:
        yield found


def log_in(page: Page, key: str) -> None:
    page.fill("#key", key)
    page.click("button:has-text('Log in')")


def test_a_reader_of_one_pipeline_sees_nothing_else(web_system: WebSystem) -> None:
    mine, other = fill_console(web_system), fill_console(web_system)
    key = make_key(web_system.system.root, "read", "search", pipelines=(mine.uid,))
    await_closed(web_system)
    with chromium() as browser, open_page(browser, web_system, "/login", viewport=SMALL) as page:
        log_in(page, key.text)
        expect(page.locator("main h1")).to_be_visible()
        for path in mine.addresses.values():
            page.goto(web_system.url + path)
            expect(page.locator("main")).not_to_contain_text(other.uid)
            expect(page.locator(CONTROLS)).to_have_count(0)
        save_screenshot(page, "access")
        for path in other.addresses.values():
            if other.uid in path:
                answer = page.goto(web_system.url + path)
                assert answer is not None and answer.status == 404, path


def test_requests_beyond_the_scopes_are_refused(web_system: WebSystem) -> None:
    content = fill_console(web_system)
    key = make_key(web_system.system.root, "read", pipelines=(content.uid,))
    await_closed(web_system)
    base = f"/v1/pipelines/{content.uid}"
    calls = (
        ("POST", f"{base}/records", {"content": "x"}),
        ("PATCH", f"{base}/records/{content.guid}", {"content": "x"}),
        ("DELETE", f"{base}/records/{content.guid}", b""),
        ("POST", f"{base}/records/erase", {"guids": [content.guid]}),
        ("POST", f"{base}/swarms/chat/messages", {"text": "x"}),
        ("PUT", base, {"pipeline_uid": content.uid}),
        ("POST", "/v1/keys", {"name": "x", "scopes": ["read"]}),
    )

    statuses = [
        ask(web_system.url, method, path, body, {"Authorization": f"Bearer {key.text}"}).status
        for method, path, body in calls
    ]

    assert statuses == [403] * len(calls)


def test_a_revoked_session_leads_to_the_login_and_back(web_system: WebSystem) -> None:
    content = fill_console(web_system)
    make_key(web_system.system.root)
    key, next_key = (
        make_key(web_system.system.root, "read"),
        make_key(web_system.system.root, "read"),
    )
    await_closed(web_system)
    path = content.addresses["Memory"]
    with (
        chromium() as browser,
        ThreadPoolExecutor(1) as thread,
        open_page(browser, web_system, f"/login?next={path}", viewport=SMALL) as page,
    ):
        log_in(page, key.text)
        page.wait_for_url(f"**{path}")

        thread.submit(revoke, web_system.system.root, key).result()

        page.wait_for_url("**/login?next=*")
        log_in(page, next_key.text)
        page.wait_for_url(f"**{path}")


def test_pages_name_the_missing_scope(web_system: WebSystem) -> None:
    content: Content = fill_console(web_system)
    key = make_key(web_system.system.root, "publish", pipelines=(content.uid,))

    await_closed(web_system)
    page = web_system.get(content.addresses["Memory"], Authorization=f"Bearer {key.text}")

    assert page.status == 403 and b"this needs the scope &#34;read&#34;." in page.body
