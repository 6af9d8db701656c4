"""The page Webhooks in Chromium: URLs to copy, and the last requests with their traces."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.support.browser import chromium
from tests.support.bundles import make_bundle, make_memory, make_uid
from tests.support.console import open_page, overflow, save_screenshot
from tests.support.http import Answer, ask
from tests.support.pages import deploy_bundle, text_of
from tests.support.web_system import WebSystem
from tests.support.webhook_senders import mac

CONTRAST = (Path(__file__).parent / "contrast.js").read_text()
HOSTILE = "<img src=x onerror=\"document.title = 'taken'\">"
SECRET, BODY = "sesame", b'{"action": "opened"}'


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem(secrets={"SECRET": SECRET}, WEB__RATE="0") as found:
        yield found


@pytest.fixture(scope="module")
def browser(web_system: WebSystem) -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def uid(web_system: WebSystem) -> str:
    hooks = [
        make_memory("write", senders="nobody") | {"agent_alias": alias} for alias in ("push", "log")
    ]
    hooks[0] |= {"wf_webhook_sender": "github", "wf_webhook_secret": "env:SECRET"}
    return deploy_bundle(web_system.url, make_bundle(make_uid(), *hooks))


def push(web_system: WebSystem, uid: str, event: str, secret: str = SECRET) -> Answer:
    headers = {
        "X-GitHub-Event": event,
        "X-GitHub-Delivery": f"delivery-{event[:8]}",
        "X-Hub-Signature-256": f"sha256={mac(secret, BODY).hex()}",
    }
    return ask(web_system.url, "POST", f"/webhooks/{uid}/push", BODY, headers)


@pytest.mark.slow
def test_requests_appear_with_their_trace_or_reason(
    web_system: WebSystem, browser: Browser, uid: str
) -> None:
    path = f"/pipelines/{uid}/webhooks"
    with open_page(browser, web_system, path, viewport={"width": 1280, "height": 800}) as page:
        expect(page.get_by_text("No requests yet.")).to_be_visible()
        expect(page.get_by_role("button", name="Copy the URL of push")).to_be_visible()
        expect(page.locator("pre").first).to_have_text(f"{web_system.url}/webhooks/{uid}/push")
        expect(page.locator("dt").first).to_contain_text("push · github · env:SECRET")

        push(web_system, uid, "issues")
        push(web_system, uid, "release", secret="another")
        ask(web_system.url, "POST", f"/webhooks/{uid}/log", b"tea", {"webhook-id": "id-1"})

        rows = page.locator("tbody tr")
        expect(rows).to_have_count(3)
        refused, accepted = rows.filter(has_text="401"), rows.filter(has_text="issues")
        expect(refused).to_contain_text("X-Hub-Signature-256")
        expect(accepted).to_contain_text("signed")
        save_screenshot(page, "webhooks")
        push(web_system, uid, HOSTILE)
        expect(rows.first).to_contain_text(HOSTILE)
        assert page.title().startswith("Webhooks")

        page.get_by_role("link", name="Requests of push").click()
        expect(rows).to_have_count(3)
        accepted.get_by_role("link", name="Message trace").click()
        expect(page).to_have_title(re.compile("^Message trace"))


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(320, "light"), (390, "dark"), (1600, "light")])
def test_the_page_fits_and_has_contrast(
    web_system: WebSystem, browser: Browser, uid: str, width: int, scheme: Any
) -> None:
    push(web_system, uid, "w" * 190)
    push(web_system, uid, "issues", secret="another")
    how = {"viewport": {"width": width, "height": 740}, "color_scheme": scheme}

    with open_page(browser, web_system, f"/pipelines/{uid}/webhooks", **how) as page:
        expect(page.locator("tbody tr")).to_have_count(2)
        assert overflow(page) <= 0
        assert page.evaluate(CONTRAST) >= 4.5


def test_the_page_is_complete_without_scripts(web_system: WebSystem, uid: str) -> None:
    path = f"/pipelines/{uid}/webhooks"
    text = text_of(web_system.get(path))

    assert f"{web_system.url}/webhooks/{uid}/log" in text
    assert "no secret: needs a key" in text
    assert web_system.get(f"{path}?agent=nobody").status == 404
    assert web_system.get(f"{path}/rows?agent=log").status == 200
