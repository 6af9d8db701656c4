"""The page /memories in Chromium: deletion, forgetting, times, restored states, and layout."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browser import chromium
from tests.support.bundles import make_bundle, make_commands, make_uid
from tests.support.pages import deploy_bundle
from tests.support.pipelit import Pipelit
from tests.support.web_system import WebSystem

pytestmark = pytest.mark.slow

TAB_NAMES = ("facts", "episodes", "checkpoints", "users")
CONTRAST = (Path(__file__).parent / "contrast.js").read_text()
HOSTILE = "<img src=x onerror=\"document.title = 'taken'\">"


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem(WEB__RATE="0") as found:
        yield found


@pytest.fixture(scope="module")
def browser(web_system: WebSystem) -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def pipelit(web_system: WebSystem) -> Pipelit:
    return Pipelit(
        web_system, deploy_bundle(web_system.url, make_bundle(make_uid(), *make_commands()))
    )


@contextmanager
def open_page(browser: Browser, pipelit: Pipelit, query: str = "", **how: Any) -> Iterator[Page]:
    """Open the page of a pipeline. Fails on script errors."""
    context = browser.new_context(**how)
    page, faults = context.new_page(), list[str]()
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on(
        "console", lambda message: faults.append(message.text) if message.type == "error" else None
    )
    try:
        page.goto(f"{pipelit.web_system.url}/memories?pipeline={pipelit.uid}&{query}")
        yield page
        assert [one for one in faults if not one.startswith("Failed to load resource")] == []
    finally:
        context.close()


def rows(page: Page) -> Any:
    return page.locator("#memories tbody tr")


def test_the_page_opens_on_facts_and_counts_the_selection(
    browser: Browser, pipelit: Pipelit
) -> None:
    for key in "abc":
        pipelit.set_fact(key)

    with open_page(browser, pipelit) as page:
        expect(page.locator("main .tabs [aria-current]").first).to_have_text("Facts")
        delete = page.get_by_role("button", name=re.compile("^Delete Selected"))
        expect(delete).to_be_hidden()
        page.get_by_role("checkbox", name="Select a", exact=True).check()
        page.get_by_role("checkbox", name="Select c", exact=True).check()
        expect(delete).to_have_text("Delete Selected (2)")
        page.get_by_label("Select all on this page").check()
        expect(delete).to_have_text("Delete Selected (3)")
        page.get_by_label("Select all on this page").uncheck()
        expect(delete).to_be_hidden()

        page.get_by_role("link", name="Episodes").click()
        expect(page.locator("#memories")).to_have_text(re.compile("No episodes recorded yet"))


def test_selected_facts_are_deleted_after_a_confirmation(
    browser: Browser, pipelit: Pipelit
) -> None:
    for key in ("a", "b", quote(HOSTILE, safe="")):
        pipelit.set_fact(key, HOSTILE)

    with open_page(browser, pipelit) as page:
        page.get_by_label("Select all on this page").check()
        page.get_by_role("checkbox", name="Select b", exact=True).uncheck()
        page.locator("#delete-selected").click()
        dialog = page.get_by_role("dialog", name="Delete 2 Facts")
        expect(dialog).to_contain_text("Are you sure? This cannot be undone.")
        expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
        page.keyboard.press("Escape")
        expect(dialog).to_be_hidden()
        assert pipelit.page("facts")["total"] == 3

        page.locator("#delete-selected").click()
        dialog.get_by_role("button", name="Delete").click()

        expect(rows(page)).to_have_count(1)
        expect(rows(page)).to_contain_text("b")
        expect(page.locator("#delete-selected")).to_be_hidden()
        assert page.title() != "taken"
    assert [fact["key"] for fact in pipelit.page("facts")["items"]] == ["b"]


def test_an_emptied_last_page_leads_to_the_one_before(browser: Browser, pipelit: Pipelit) -> None:
    for number in range(51):
        pipelit.set_fact(f"k{number}")

    with open_page(browser, pipelit) as page:
        page.locator(".select-row").first.check()
        page.get_by_role("link", name="Next").click()
        expect(page.locator("#memories")).to_contain_text("Showing 51-51 of 51")
        expect(page.locator("#delete-selected")).to_be_hidden()
        page.locator(".select-row").check()
        page.locator("#delete-selected").click()
        page.locator("#confirm-yes").click()

        expect(page.locator("#memories")).to_contain_text("Showing 1-50 of 50")
        expect(rows(page)).to_have_count(50)


def test_checkpoints_are_filtered_by_thread_and_deleted(browser: Browser, pipelit: Pipelit) -> None:
    pipelit.chat("t1", "one")
    pipelit.chat("t2", "two")

    with open_page(browser, pipelit, "tab=checkpoints") as page:
        expect(rows(page)).to_have_count(6)
        page.get_by_role("link", name="t1").first.click()
        expect(rows(page)).to_have_count(3)
        expect(page.get_by_label("Thread", exact=True)).to_have_value("t1")
        page.get_by_label("Select all on this page").check()
        page.locator("#delete-selected").click()
        page.locator("#confirm-yes").click()
        expect(page.locator("#memories")).to_contain_text("Nothing matches.")
        page.get_by_role("link", name="Show all").click()
        expect(rows(page)).to_have_count(3)


def test_a_user_is_forgotten_after_a_confirmation(browser: Browser, pipelit: Pipelit) -> None:
    pipelit.identify("7", "Ada")
    pipelit.identify("8", "Bob")
    pipelit.set_fact("tea", "green", scope="user", user_id="telegram:7")

    with open_page(browser, pipelit, "tab=users") as page:
        page.get_by_role("button", name="Forget telegram:7").click()
        dialog = page.get_by_role("dialog", name="Forget telegram:7")
        expect(dialog).to_contain_text("cannot be undone")
        dialog.get_by_role("button", name="Forget").click()
        expect(rows(page)).to_have_count(1)
        expect(rows(page)).to_contain_text("Bob")
    assert pipelit.page("facts")["total"] == 0


def test_a_refused_change_is_shown_in_the_dialog(browser: Browser, pipelit: Pipelit) -> None:
    pipelit.set_fact("a")

    with open_page(browser, pipelit) as page:
        page.route(
            "**/batch-delete/*",
            lambda route: route.fulfill(status=422, json={"detail": "ids is missing"}),
        )
        page.locator(".select-row").check()
        page.locator("#delete-selected").click()
        page.locator("#confirm-yes").click()
        expect(page.get_by_role("alert")).to_have_text("ids is missing")
        expect(page.locator("#confirm-yes")).to_be_enabled()


def test_times_are_those_of_the_browser(browser: Browser, pipelit: Pipelit) -> None:
    pipelit.set_fact("a")

    shown = []
    for zone in ("UTC", "Asia/Kathmandu"):
        with open_page(browser, pipelit, timezone_id=zone) as page:
            shown.append(rows(page).locator("time").inner_text())

    # The day is shown unless it is today, the seconds if it is.
    clocks = [
        re.fullmatch(r"(?:\d+ [A-Z][a-z]+ \d{4}, )?(\d\d):(\d\d)(?::\d\d)? (?:UTC|GMT\+5:45)", one)
        for one in shown
    ]
    utc, nepal = [int(clock[1]) * 60 + int(clock[2]) for clock in clocks if clock]
    assert (nepal - utc) % (24 * 60) == 5 * 60 + 45


def test_an_earlier_state_is_restored(browser: Browser, pipelit: Pipelit) -> None:
    pipelit.set_fact("color", "blue")
    fact = pipelit.set_fact("color", "green")

    with open_page(browser, pipelit) as page:
        page.get_by_role("link", name="color").click()
        expect(page.locator("h1")).to_have_text("color")
        expect(page.locator(".content").first).to_have_text("color: green")
        page.get_by_role("button", name="Restore state 1").click()
        expect(page.locator(".content").first).to_have_text("color: blue")
        assert pipelit.page("facts")["items"][0]["value"] == "blue"

        pipelit.delete("facts", [fact])
        page.reload()
        expect(page.locator("h1")).to_have_text("Deleted record")
        page.get_by_role("button", name="Restore state 3").click()
        expect(page.locator(".content").first).to_have_text("color: blue")


@pytest.mark.parametrize("width", [320, 768, 1600])
def test_no_page_is_wider_than_its_window(browser: Browser, pipelit: Pipelit, width: int) -> None:
    long = "w" * 200
    fact = pipelit.set_fact(long, long, scope="user", user_id=long)
    pipelit.operate("episodes/begin", agent_id=long, trigger_type="t" * 40)
    pipelit.identify(long, long)
    pipelit.chat(long, long)

    with open_page(browser, pipelit, viewport={"width": width, "height": 740}) as page:
        paths = [f"/memories?pipeline={pipelit.uid}&tab={name}" for name in TAB_NAMES]
        for path in (*paths, f"/memories/{pipelit.uid}/{fact}"):
            page.goto(pipelit.web_system.url + path)
            expect(page.locator(".memories tbody tr").first).to_be_visible()
            overflow = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert overflow <= 0, path


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast(browser: Browser, pipelit: Pipelit, scheme: Any) -> None:
    fact = pipelit.set_fact("color", "blue")
    pipelit.identify("7", "Ada")

    with open_page(browser, pipelit, "tab=users", color_scheme=scheme) as page:
        page.locator(".select-row").check()
        assert page.evaluate(CONTRAST) >= 4.5
        page.get_by_role("button", name="Forget telegram:7").click()
        assert page.evaluate(CONTRAST) >= 4.5
        page.goto(f"{pipelit.web_system.url}/memories/{pipelit.uid}/{fact}")
        assert page.evaluate(CONTRAST) >= 4.5


def test_the_page_works_by_keyboard(browser: Browser, pipelit: Pipelit) -> None:
    pipelit.set_fact("a")

    with open_page(browser, pipelit) as page:
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.className") == "select-row":
                break
        page.keyboard.press("Space")
        expect(page.locator("#delete-selected")).to_have_text("Delete Selected (1)")
        page.locator("#delete-selected").focus()
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        expect(page.locator("#confirm-yes")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator("#memories")).to_contain_text("No facts stored yet")
