"""The pages of endpoints in Chromium: create, test, rotate, switch, send again, delete."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from standardwebhooks import Webhook

from tests.support.browser import chromium
from tests.support.bundles import make_bundle, make_commands, make_uid
from tests.support.console import open_page, overflow, save_screenshot
from tests.support.console_content import post
from tests.support.pages import deploy_bundle
from tests.support.web_system import WebSystem
from tests.support.webhook_receiver import Reply, WebhookReceiver

pytestmark = pytest.mark.slow

CONTRAST = (Path(__file__).parent / "contrast.js").read_text()
OPEN_ALL = "document.querySelectorAll('main details').forEach((one) => { one.open = true; })"
SIZE = {"width": 1280, "height": 900}


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem(worker=False, WEB__RATE="0") as found:
        found.system.start_worker(outgoing={"open_for": ["endpoints"]})
        yield found


@pytest.fixture(scope="module")
def browser(web_system: WebSystem) -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def uid(web_system: WebSystem) -> str:
    return deploy_bundle(web_system.url, make_bundle(make_uid(), *make_commands()))


def write(web_system: WebSystem, uid: str, text: str) -> None:
    post(web_system, f"/v1/pipelines/{uid}/records", {"content": text})


def read_secret(page: Page) -> str:
    """Return the secret that the page shows, and close it."""
    expect(page.get_by_role("heading", name="Secret of the endpoint")).to_be_visible()
    secret = page.locator("#created code").inner_text()
    page.get_by_role("button", name="I have stored it").click()
    expect(page.locator("#created")).to_be_hidden()
    assert secret.startswith("whsec_") and secret not in page.content()
    return secret


def test_an_endpoint_is_created_tested_rotated_and_deleted(
    web_system: WebSystem, browser: Browser, uid: str
) -> None:
    with (
        WebhookReceiver() as receiver,
        open_page(browser, web_system, f"/pipelines/{uid}/webhooks", viewport=SIZE) as page,
    ):
        page.get_by_text("Create an endpoint").click()
        page.get_by_label("URL, or a reference to it").fill(receiver.url)
        page.get_by_label("Events, separated by commas").fill("record.created, record.lost")
        page.get_by_role("button", name="Create", exact=True).click()
        expect(page.get_by_role("alert")).to_contain_text("'record.lost' matches no type")
        page.get_by_label("Events, separated by commas").fill("record.created, record.deleted")
        page.get_by_label("Description").fill("Notes for the team")
        page.get_by_role("button", name="Create", exact=True).click()
        secret = read_secret(page)
        write(web_system, uid, "tea")
        (request,) = receiver.wait(1)
        Webhook(secret).verify(request.body, request.headers)
        row = page.get_by_role("row").filter(has_text="Notes for the team")
        expect(row).to_contain_text("100 %")
        save_screenshot(page, "endpoints")

        row.get_by_role("rowheader").get_by_role("link").click()
        page.get_by_role("button", name="Send a test").click()
        expect(page.get_by_role("heading", name="Delivery")).to_be_visible()
        expect(page.get_by_role("row").filter(has_text="200")).to_contain_text("ok")
        page.get_by_role("button", name="Send again").click()
        expect(page.get_by_role("row").filter(has_text="200")).to_have_count(2)

        page.go_back()
        page.get_by_text("Rotate the secret").click()
        page.get_by_role("button", name="Rotate", exact=True).click()
        assert read_secret(page) != secret
        page.get_by_text("Edit", exact=True).click()
        page.get_by_label("Description").fill("Nobody reads it")
        page.get_by_role("button", name="Save").click()
        expect(page.locator(".description")).to_have_text("Nobody reads it")
        page.get_by_role("button", name="Switch off").click()
        expect(page.locator(".stats")).to_contain_text("Off: switched off")
        page.get_by_role("button", name="Switch on").click()
        expect(page.locator(".stats")).to_contain_text("Active")
        page.get_by_text("Delete", exact=True).click()
        page.get_by_role("button", name="Delete the endpoint").click()
        expect(page.get_by_text("No endpoints yet.")).to_be_visible()


def test_failed_deliveries_of_a_period_are_sent_again(
    web_system: WebSystem, browser: Browser, uid: str
) -> None:
    with WebhookReceiver(Reply(410, b"gone"), Reply(410, b"gone")) as receiver:
        path = f"/v1/pipelines/{uid}/endpoints"
        made = post(web_system, path, {"url": receiver.url})["endpoint"]["id"]
        write(web_system, uid, "tea")
        receiver.wait(1)
        with open_page(
            browser, web_system, f"/pipelines/{uid}/endpoints/{made}?state=failed", viewport=SIZE
        ) as page:
            rows = page.get_by_role("row").filter(has_text="record.created")
            expect(page.locator(".stats")).to_contain_text("Off: the receiver answered 410")
            expect(rows).to_have_count(1)
            page.get_by_role("button", name="Switch on").click()
            page.get_by_text("Send deliveries again").click()
            page.get_by_label("From (empty: the oldest)").fill("2020-01-01T00:00")
            receiver.script.clear()
            page.get_by_role("button", name="Send again").click()
            expect(page.get_by_text("Deliveries sent again: 1.")).to_be_visible()
            expect(rows).to_have_count(0)
            expect(page.locator(".stats")).to_contain_text("100 %")


@pytest.mark.parametrize(("width", "scheme"), [(320, "light"), (390, "dark"), (1600, "light")])
def test_the_pages_fit_and_have_contrast(
    web_system: WebSystem, browser: Browser, uid: str, width: int, scheme: Any
) -> None:
    how = {"viewport": {"width": width, "height": 740}, "color_scheme": scheme}
    with WebhookReceiver(usual=Reply(500, b"x" * 1000)) as receiver:
        made = post(
            web_system, f"/v1/pipelines/{uid}/endpoints",
            {"url": receiver.url, "description": "d" * 200},
        )["endpoint"]["id"]  # fmt: skip
        write(web_system, uid, "tea")
        (request,) = receiver.wait(1)
        for path in ("webhooks", f"endpoints/{made}", f"deliveries/{request.id}", "deliveries"):
            with open_page(browser, web_system, f"/pipelines/{uid}/{path}", **how) as page:
                page.evaluate(OPEN_ALL)
                assert overflow(page) <= 0, path
                assert page.evaluate(CONTRAST) >= 4.5, path
