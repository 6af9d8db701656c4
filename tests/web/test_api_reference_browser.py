"""The API reference in Chromium: its forms send calls, also by keyboard and on a phone."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.support.browser import chromium
from tests.support.bundles import make_bundle, make_commands, make_uid
from tests.support.console import open_page, overflow
from tests.support.pages import deploy_bundle
from tests.support.web_system import WebSystem
from tests.web.test_console_browser import lowest_contrast, tab_to

pytestmark = pytest.mark.slow

PHONE = {"width": 320, "height": 700}


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem() as found:
        yield found


@pytest.fixture(scope="module")
def uid(web_system: WebSystem) -> str:
    return deploy_bundle(web_system.url, make_bundle(make_uid(), *make_commands()))


@pytest.fixture(scope="module")
def browser(web_system: WebSystem) -> Iterator[Browser]:
    with chromium() as found:
        yield found


def open_form(page: Page, ident: str) -> Locator:
    """Open a route by the fragment of the address, and its form."""
    article = page.locator(f'[id="{ident}"]')
    article.locator(".try > summary").click()
    return article


def send(article: Locator) -> Locator:
    article.get_by_role("button", name="Send request").click()
    return article.locator(".sending [role=status]")


def test_a_form_sends_a_post_and_a_get(browser: Browser, web_system: WebSystem, uid: str) -> None:
    with open_page(browser, web_system, "/docs/records#records.create") as page:
        create = open_form(page, "records.create")
        expect(create.locator('[name="uid"]')).to_have_value(uid)
        create.locator("textarea").fill('{\n  "content": "Tea is green"\n}')
        expect(send(create)).to_have_text(re.compile(r"^201 Created, \d+ ms$"))
        expect(create.locator(".response .command")).to_contain_text('"content": "Tea is green"')
        expect(create.locator(".headers")).to_contain_text("x-request-id: ")
        expect(create.locator(".example code")).to_have_text(
            f"curl -X POST {web_system.url}/v1/pipelines/{uid}/records "
            """-H 'Content-Type: application/json' -d '{"content":"Tea is green"}'"""
        )

        page.goto(web_system.url + "/docs/records#records.list")
        listed = open_form(page, "records.list")
        listed.locator('[name="tags"]').fill("none, such")
        expect(send(listed)).to_have_text(re.compile("^200 OK"))
        expect(listed.locator(".response .command")).to_contain_text('"items": []')
        listed.locator('[name="tags"]').fill("")
        send(listed)
        expect(listed.locator(".response .command")).to_contain_text("Tea is green")


def test_a_failed_call_shows_the_problem(browser: Browser, web_system: WebSystem, uid: str) -> None:
    with open_page(browser, web_system, "/docs/records#records.search") as page:
        search = open_form(page, "records.search")
        search.locator("textarea").fill('{"query": ""}')

        expect(send(search)).to_have_text(re.compile("^422 "))
        expect(search.locator(".response .command")).to_contain_text('"detail": ')


def test_a_deletion_is_sent_only_after_confirmation(
    browser: Browser, web_system: WebSystem, uid: str
) -> None:
    path = f"/v1/pipelines/{uid}/records"
    guid = web_system.post(path, {"content": "to be deleted"}).json["guid"]
    with open_page(browser, web_system, "/docs/records#records.delete") as page:
        delete = open_form(page, "records.delete")
        delete.locator('[name="guid"]').fill(guid)
        status, dialog = send(delete), page.locator("#confirm-call")
        expect(dialog).to_contain_text(f"DELETE {path}/{guid}")
        dialog.get_by_role("button", name="Cancel").click()
        expect(dialog).to_be_hidden()
        assert web_system.get(f"{path}/{guid}").status == 200 and status.inner_text() == ""

        send(delete)
        dialog.get_by_role("button", name="Send request").click()

        expect(status).to_have_text(re.compile("^204 No Content"))
        assert web_system.get(f"{path}/{guid}").status == 404


def test_a_long_response_is_clipped(browser: Browser, web_system: WebSystem, uid: str) -> None:
    with open_page(browser, web_system, "/docs/console#pages.document") as page:
        document = open_form(page, "pages.document")

        expect(send(document)).to_have_text(re.compile("first 20000 characters$"))
        assert len(document.locator(".response .command").inner_text()) <= 20_000


def test_a_call_can_be_sent_by_keyboard(browser: Browser, web_system: WebSystem, uid: str) -> None:
    with open_page(browser, web_system, "/docs") as page:
        tab_to(page, "document.activeElement.textContent === 'Stores'")
        page.keyboard.press("Enter")
        page.wait_for_url("**/docs/stores")
        tab_to(page, "document.activeElement.matches('.route > summary')")
        page.keyboard.press("Enter")
        tab_to(page, "document.activeElement.textContent === 'Try it'")
        page.keyboard.press("Enter")
        tab_to(page, "document.activeElement.name === 'agent'")
        page.keyboard.type("assistant")
        page.keyboard.press("Enter")

        status = page.locator('[id="stores.list"] .sending [role=status]')
        expect(status).to_have_text(re.compile("^200 OK"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_everything_without_scrolling_sideways(
    browser: Browser, web_system: WebSystem, uid: str, scheme: str
) -> None:
    for path in ("/docs", "/docs?q=search", "/docs/records", "/docs/codebolt_graphs"):
        with open_page(browser, web_system, path, viewport=PHONE, color_scheme=scheme) as page:
            page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
            assert overflow(page) <= 0, path
            assert lowest_contrast(page) >= 4.5


def test_the_reference_is_readable_without_javascript(
    browser: Browser, web_system: WebSystem
) -> None:
    with open_page(browser, web_system, "/docs/records", java_script_enabled=False) as page:
        page.locator("summary", has_text="/records/search").click()
        article = page.locator('[id="records.search"]')
        article.locator(".try > summary").click()

        expect(article.get_by_text("This action needs JavaScript.")).to_be_visible()
        expect(article.locator("form")).to_be_hidden()
        expect(article.locator(".example code")).to_contain_text("curl -X POST")
