"""The keyboard shortcuts of the console: search, rows, edit, undo and help."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browser import chromium
from tests.support.console import open_page
from tests.support.console_content import Content, fill_console, post
from tests.support.http import ask
from tests.support.web_system import WebSystem

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem() as found:
        yield found


@pytest.fixture(scope="module")
def content(web_system: WebSystem) -> Content:
    return fill_console(web_system)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def focused_row(page: Page) -> int:
    """Return the index of the row that contains the focus, -1 if none does."""
    rows = "[...document.querySelectorAll('[data-row]')]"
    script = f"{rows}.findIndex((row) => row.contains(document.activeElement))"
    return int(page.evaluate(script))


def test_slash_focuses_the_search_box(
    browser: Browser, web_system: WebSystem, content: Content
) -> None:
    with open_page(browser, web_system, content.addresses["Memory"]) as page:
        page.keyboard.press("/")
        expect(page.get_by_role("searchbox")).to_be_focused()
        page.keyboard.type("a/jk?eu")
        expect(page.get_by_role("searchbox")).to_have_value("a/jk?eu")
        expect(page.locator("#help")).to_be_hidden()


def test_slash_goes_to_find_from_a_page_without_search(
    browser: Browser, web_system: WebSystem
) -> None:
    with open_page(browser, web_system, "/status") as page:
        page.keyboard.press("/")
        page.wait_for_url("**/find")
        expect(page.get_by_role("searchbox", name="Find")).to_be_focused()


def test_j_and_k_move_through_the_rows(
    browser: Browser, web_system: WebSystem, content: Content
) -> None:
    with open_page(browser, web_system, content.addresses["Memory"]) as page:
        count = page.locator("[data-row]").count()
        assert count > 3
        page.keyboard.press("j")
        page.keyboard.press("j")
        assert focused_row(page) == 1
        page.keyboard.press("k")
        page.keyboard.press("k")
        assert focused_row(page) == 0
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        for _ in range(count + 2):
            page.keyboard.press("j")
        assert focused_row(page) == count - 1
        target = page.evaluate("document.activeElement.href")
        page.keyboard.press("Enter")
        page.wait_for_url(target)


def test_the_focus_stays_on_its_row_after_a_refresh(
    browser: Browser, web_system: WebSystem, content: Content
) -> None:
    with open_page(browser, web_system, content.addresses["Memory"]) as page:
        page.keyboard.press("j")
        page.keyboard.press("j")
        link = page.evaluate("document.activeElement.href")
        post(web_system, f"/v1/pipelines/{content.uid}/records", {"content": "written meanwhile"})
        expect(page.get_by_role("link", name="written meanwhile")).to_be_visible()
        assert page.evaluate("document.activeElement.href") == link
        assert focused_row(page) == 2


def test_e_edits_and_u_undoes(browser: Browser, web_system: WebSystem, content: Content) -> None:
    path = f"/v1/pipelines/{content.uid}/records"
    guid = post(web_system, path, {"content": "to be deleted"})["guid"]

    with open_page(browser, web_system, f"/pipelines/{content.uid}/memory/{guid}") as page:
        page.keyboard.press("e")
        expect(page.locator(".edit [name=content]")).to_be_focused()
        page.get_by_role("button", name="Cancel").click()
        page.get_by_role("button", name="Delete", exact=True).click()
        expect(page.locator(".deleted")).to_be_visible()
        page.keyboard.press("u")
        expect(page.get_by_role("button", name="Edit")).to_be_visible()
    assert ask(web_system.url, "GET", f"{path}/{guid}").json["content"] == "to be deleted"


def test_the_help_lists_the_keys(browser: Browser, web_system: WebSystem) -> None:
    with open_page(browser, web_system, "/", reduced_motion="reduce") as page:
        page.keyboard.press("?")
        dialog = page.get_by_role("dialog", name="Keyboard shortcuts")
        keys = dialog.locator("kbd").all_inner_texts()
        assert keys == ["/", "j", "k", "Enter", "e", "u", "a", "r", "?"]
        page.keyboard.press("j")
        assert focused_row(page) == -1
        page.keyboard.press("Escape")
        expect(dialog).to_be_hidden()


@pytest.mark.parametrize("modifier", ["Control", "Alt", "Meta"])
def test_keys_with_a_modifier_do_nothing(
    browser: Browser, web_system: WebSystem, content: Content, modifier: str
) -> None:
    with open_page(browser, web_system, content.addresses["Memory"]) as page:
        page.locator("h1").evaluate(
            "(h1) => h1.dispatchEvent(new KeyboardEvent('keydown', {key: 'j', bubbles: true, "
            f"{ {'Control': 'ctrl', 'Alt': 'alt', 'Meta': 'meta'}[modifier] }Key: true}}))"
        )
        assert focused_row(page) == -1
