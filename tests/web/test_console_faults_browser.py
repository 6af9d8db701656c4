"""What a new user ran into, in Chromium at the widths of a phone, a laptop and a wide screen."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browser import chromium
from tests.support.console import open_page, overflow
from tests.support.console_showcase import EMPTY_PAGES, PAGES, fill_showcase
from tests.support.keys import await_closed, make_key
from tests.support.web_system import WebSystem

pytestmark = pytest.mark.slow

WIDTHS = (320, 1280, 1600)
# The difference of the baselines of the first and each other text of a row, in px.
BASELINES = """() => {
  const baseline = (node) => {
    const mark = document.createElement("span");
    mark.style.display = "inline-block";
    node.prepend(mark);
    const { bottom } = mark.getBoundingClientRect();
    mark.remove();
    return bottom;
  };
  const deepest = (node) => node.firstElementChild && !node.firstChild.textContent.trim()
    ? deepest(node.firstElementChild) : node;
  return [...document.querySelectorAll("tbody tr")].flatMap((row) => {
    const first = baseline(deepest(row.cells[0]));
    return [...row.querySelectorAll("td button:not([popover] *)")]
      .map((node) => Math.abs(baseline(node) - first));
  });
}"""
# The controls that stay under the bar of toasts although they are scrolled into view.
COVERED = """() => {
  const controls = [...document.querySelectorAll("a, button, input, select, textarea, summary")];
  return controls.filter((node) => {
    if (!node.checkVisibility() || node.closest("#toasts, .skip")) return false;
    node.scrollIntoView({ block: "nearest" });
    const { left, top, width, height } = node.getBoundingClientRect();
    const found = document.elementFromPoint(left + width / 2, top + height / 2);
    return found?.closest("#toasts") != null;
  }).map((node) => node.outerHTML.slice(0, 200));
}"""


class Shown(NamedTuple):
    """A server with a support desk, the fields of its addresses, and a browser."""

    web_system: WebSystem
    fields: dict[str, str]
    browser: Browser
    # A server that has keys.
    closed: WebSystem

    def open(self, name: str, width: int = 1280, **how: Any) -> Any:
        """Open a page by its name, or by that of a page without content, as `empty NAME`."""
        kind, _, rest = name.partition(" ")
        path = EMPTY_PAGES[rest] if kind == "empty" else PAGES[name]
        window = {"width": width, "height": 800}
        return open_page(
            self.browser, self.web_system, path.format(**self.fields), viewport=window, **how
        )


@pytest.fixture(scope="module")
def shown() -> Iterator[Shown]:
    with WebSystem(WEB__RATE="0") as web_system, WebSystem(worker=False) as closed:
        make_key(closed.system.root)
        await_closed(closed)
        with chromium() as browser:
            yield Shown(web_system, fill_showcase(web_system), browser, closed)


def top(page: Page, selector: str) -> float:
    box = page.locator(selector).bounding_box()
    assert box is not None, selector
    return box["y"] + box["height"] / 2


@pytest.mark.parametrize("has_scripts", [True, False])
@pytest.mark.parametrize("width", [320, 640])
def test_a_phone_has_its_navigation_in_one_row_with_a_menu(
    shown: Shown, width: int, has_scripts: bool
) -> None:
    with shown.open("record", width, java_script_enabled=has_scripts) as page:
        menus = page.locator("nav summary")
        assert abs(top(page, ".logo") - top(page, ".main-menu summary")) < 4
        expect(menus).to_have_text(["Menu", "Memory"], use_inner_text=True)
        for menu, link in zip(menus.all(), ("Status", "Versions"), strict=True):
            menu.focus()
            menu.press("Enter")
            expect(page.get_by_role("link", name=link, exact=True)).to_be_visible()
            menu.press("Enter")
            expect(page.get_by_role("link", name=link, exact=True)).to_be_hidden()
        if has_scripts:
            assert overflow(page) <= 0


@pytest.mark.parametrize("width", [1280, 1600])
def test_a_wide_window_has_its_tabs_in_one_row_with_the_rest_in_a_menu(
    shown: Shown, width: int
) -> None:
    with shown.open("undo", width) as page:
        tabs = page.get_by_role("navigation", name="Pipeline")
        tops = {round(one.bounding_box()["y"]) for one in tabs.locator("> ul a").all()}  # type: ignore[index]
        assert len(tops) == 1
        expect(tabs.locator("> ul [aria-current]")).to_have_text("Undo")
        tabs.get_by_text("More").click()
        expect(tabs.get_by_role("link", name="Rehearsals")).to_be_visible()
        expect(page.locator(".main-menu summary")).to_be_hidden()


@pytest.mark.parametrize("width", [1280, 1600])
def test_buttons_in_tables_stand_on_the_baseline_of_their_row(shown: Shown, width: int) -> None:
    found = dict[str, list[float]]()
    for name in ("dead-letters", "dead-letter-group", "versions", "captured", "record", "policies"):
        with shown.open(name, width) as page:
            found[name] = page.evaluate(BASELINES)

    assert all(found.values()), found
    assert max(map(max, found.values())) <= 1.5, found


@pytest.mark.parametrize("width", WIDTHS)
def test_json_is_readable_and_breaks_in_no_word(shown: Shown, width: int) -> None:
    with shown.open("record-json", width) as page:
        sheet = page.locator("#record .json")
        expect(sheet.locator("dd").first).to_have_text("4711")
        expect(sheet.locator(".raw")).to_be_hidden()
        lines = sheet.get_by_text("GREENTEA").first.evaluate(
            """(node) => {
              const text = document.createTreeWalker(node, NodeFilter.SHOW_TEXT).nextNode();
              const range = document.createRange(), at = text.data.indexOf("GREENTEA");
              range.setStart(text, at);
              range.setEnd(text, at + 8);
              return range.getClientRects().length;
            }"""
        )
        assert lines == 1
        sheet.get_by_text("Show the text").click()
        expect(sheet.locator(".raw")).to_contain_text('{"order": 4711')
    with shown.open("memory", width) as page:
        expect(page.get_by_text("order: 4711 · customer: Ada Lovelace")).to_be_visible()
    with shown.open("overview", width) as page:
        log = page.locator(".messages li").filter(has_text="memory_read").first
        expect(log.locator(".text").first).to_contain_text("items: ")
        expect(log.locator("pre")).to_be_hidden()


@pytest.mark.parametrize("width", WIDTHS)
def test_a_toast_covers_no_control_and_names_the_console(shown: Shown, width: int) -> None:
    with shown.open("record", width) as page:
        page.get_by_role("button", name="Delete", exact=True).click()
        toasts = page.locator(".toasts")
        expect(toasts).to_contain_text("Deleted.")
        expect(page.locator(".deleted")).to_contain_text("Deleted by console")
        assert page.evaluate(COVERED) == []
        toasts.get_by_role("button", name="Undo").click()
        expect(page.locator(".deleted")).to_have_count(0)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_term_is_explained_by_keyboard_and_touch(shown: Shown, width: int) -> None:
    with shown.open("overview", width, has_touch=True) as page:
        term, text = page.get_by_role("button", name="Waiting"), page.locator("#term-lag")
        term.focus()
        page.keyboard.press("Enter")
        expect(text).to_be_visible()
        box = text.bounding_box()
        assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= width
        page.keyboard.press("Escape")
        expect(text).to_be_hidden()
        page.locator("footer .term").tap()
        expect(page.locator("#terms")).to_contain_text("Write-ahead log")
        assert overflow(page) <= 0


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", EMPTY_PAGES)
def test_an_empty_page_has_a_sentence_an_example_and_a_link(
    shown: Shown, name: str, width: int
) -> None:
    with shown.open(f"empty {name}", width) as page:
        main = page.locator("main")
        expect(main.locator(".empty, .notice").first).to_be_visible()
        assert main.locator("a:visible").count() and main.locator("pre, code, textarea").count()
        assert overflow(page) <= 0


@pytest.mark.parametrize("width", WIDTHS)
def test_the_form_of_the_first_key_ticks_nothing_and_warns(shown: Shown, width: int) -> None:
    with shown.open("first-key", width) as page:
        ticked = page.locator("#create-key :checked[type=checkbox]")
        expect(ticked).to_have_count(0)
        expect(page.locator(".warns")).to_contain_text("changes access permanently")
        page.get_by_role("button", name="A key for this console").click()
        assert [one.get_attribute("value") for one in ticked.all()] == ["read", "admin", "*"]
        assert overflow(page) <= 0


@pytest.mark.parametrize("width", WIDTHS)
def test_the_login_page_explains_keys_and_how_to_get_one(shown: Shown, width: int) -> None:
    window = {"width": width, "height": 800}
    with open_page(shown.browser, shown.closed, "/login", viewport=window) as page:
        expect(page.get_by_role("main")).to_contain_text("This server has keys")
        expect(page.locator(".command").first).to_contain_text(".venv/bin/memrelay keys create me")
        page.get_by_text("installed in another way").click()
        expect(page.get_by_text("docker compose exec server memrelay")).to_be_visible()
        assert overflow(page) <= 0
