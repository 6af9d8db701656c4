"""Statement 13 of the console: what a newcomer met is fixed, on a phone and on wide screens.

Other findings have their tests in tests/web:

- test_console_trace.py: The log lists failed messages. Dead-letter counts are links.
- test_console_graph_browser.py: The graph fits, or is hidden. Its nodes are links.
- test_console.py: The graph is on the home page of one pipeline. Several are one table.
- test_messages.py: The API has hints about mistyped commands.
- test_api_reference_browser.py: The reference has a page per group, which can send a call.
- test_console_texts.py: The pages have the texts of the spec.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from memrelay.web.console.pages import ALL
from tests.support.bundles import make_bundle, make_commands, make_uid
from tests.support.console import open_page, overflow, save_screenshot, send
from tests.support.console_content import PERSON, Opened, open_console
from tests.support.pages import deploy_bundle

pytestmark = pytest.mark.slow

WIDTHS = (320, 1280, 1600)
# Pages that show no data, or data of several routes.
WITHOUT_JSON = {"Find", "API reference", "API group", "Agent memory", "Captured", "Replay", "Tests"}
USAGE = "/delete GUID forgets the record with this guid."
# The smallest side of a link or button that a finger hits.
TAP_PX = 24


@pytest.fixture(scope="module")
def opened() -> Iterator[Opened]:
    with open_console() as found:
        yield found


def window(width: int) -> Any:
    return {"viewport": {"width": width, "height": 900}}


@pytest.mark.parametrize("width", WIDTHS)
def test_every_page_is_reached_from_the_menu_and_the_tabs(opened: Opened, width: int) -> None:
    start = f"/pipelines/{opened.content.uid}"
    with open_page(opened.browser, opened.web_system, start, **window(width)) as page:
        for menu, kind in (("Pipeline", "pipeline"), ("Main", "main")):
            for title in sorted(one.title for one in ALL if one.menu == kind):
                open_menus(page, menu)
                links = links_of(page, menu)
                assert smallest_side(links) >= TAP_PX, title
                links.get_by_text(title, exact=True).locator("visible=true").first.click()
                current = page.locator("nav [aria-current]", has_text=title)
                expect(current.first).to_be_attached()
                assert overflow(page) <= 0, title


def open_menus(page: Page, menu: str) -> None:
    """Open the menus of a navigation, which has links besides."""
    navigation = page.get_by_role("navigation", name=menu, exact=True)
    for closed in navigation.locator("details:not([open]) > summary").all():
        if closed.is_visible():
            closed.click()


def links_of(page: Page, menu: str) -> Locator:
    return page.get_by_role("navigation", name=menu, exact=True).get_by_role("link")


def smallest_side(links: Locator) -> float:
    boxes = [link.bounding_box() for link in links.all()]
    return min(min(box["width"], box["height"]) for box in boxes if box)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_chat_helps_with_mistyped_and_incomplete_commands(opened: Opened, width: int) -> None:
    agents = make_commands()
    agents[-1] |= {"agent_desc": USAGE}
    uid = deploy_bundle(opened.web_system.url, make_bundle(make_uid(), PERSON, *agents))
    path = f"/pipelines/{uid}"
    with open_page(opened.browser, opened.web_system, path, **window(width)) as page:
        mistyped = send(page, "/wriet tea")
        expect(mistyped).to_contain_text('Unknown command "/wriet". Did you mean "/write"?')
        incomplete = send(page, "/delete")
        expect(incomplete).to_contain_text(f'"/delete" is incomplete. Usage: {USAGE}')
        assert overflow(page) <= 0
        if width == 1280:
            incomplete.scroll_into_view_if_needed()
            save_screenshot(page, "hints")


def test_the_footer_leads_to_the_reference_and_to_the_data(opened: Opened) -> None:
    without_json = set()
    for title, path in opened.content.addresses.items():
        with open_page(opened.browser, opened.web_system, path, **window(1280)) as page:
            footer = page.locator("footer")
            expect(footer).to_contain_text("Memrelay ")
            reference = footer.get_by_role("link", name="API reference")
            expect(reference).to_have_attribute("href", "/docs")
            links = footer.get_by_role("link", name="View as JSON").all()
            for address in (str(link.get_attribute("href")) for link in links):
                assert opened.web_system.get(address).json is not None, (title, address)
            without_json |= set() if links else {title}

    assert without_json == WITHOUT_JSON
