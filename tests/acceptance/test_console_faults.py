"""Statement 10 of the console: each page reports a lost bus, keeps its content and recovers. The
reason of a pause is shown.
"""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, expect

from tests.support.browser import chromium
from tests.support.console import open_page, save_screenshot
from tests.support.console_content import fill_console
from tests.support.web_system import WebSystem

pytestmark = pytest.mark.slow

WITHIN_MS = 5_000
NO_BUS = "The bus does not respond. Retrying every 5 seconds."
# Pages that do not change by themselves, or whose content does not come from the bus.
FIXED = {"Find", "Keys", "API reference", "API group"}


@pytest.fixture
def web_system() -> Iterator[WebSystem]:
    with WebSystem() as found:
        yield found


@pytest.fixture
def browser(web_system: WebSystem) -> Iterator[Browser]:
    with chromium() as found:
        yield found


def test_each_page_reports_a_lost_bus_and_recovers(browser: Browser, web_system: WebSystem) -> None:
    content = fill_console(web_system)
    with ExitStack() as stack:
        pages = [
            stack.enter_context(open_page(browser, web_system, path))
            for title, path in content.addresses.items()
            if title not in FIXED
        ]
        texts = [page.locator("main").inner_text() for page in pages]

        web_system.system.server.stop(grace_s=5)

        fault_lines = [page.locator("#refresh-fault") for page in pages]
        for line in fault_lines:
            expect(line).to_have_text(NO_BUS, timeout=WITHIN_MS)
        for page, text in zip(pages, texts, strict=True):
            assert page.locator("main h1").first.inner_text() in text
        save_screenshot(next(page for page in pages if page.url.endswith("/memory")), "lost-bus")

        web_system.system.server.start()
        for line in fault_lines:
            expect(line).to_be_hidden(timeout=3 * WITHIN_MS)


def test_the_reason_of_a_pause_is_shown(browser: Browser, web_system: WebSystem) -> None:
    content = fill_console(web_system)
    with open_page(browser, web_system, content.addresses["Memory"]) as page:
        expect(page.locator("main h1")).to_be_attached()
        with web_system.system.client.redis.pipeline() as pipe:
            pipe.delete(f"pipeline:{{{content.uid}}}:in")
            pipe.set(f"pipeline:{{{content.uid}}}:in", "wrong type")
            pipe.execute()

        notice = page.locator("[role=status]", has_text="Paused: ").first
        expect(notice).to_contain_text("holding the wrong kind of value")
        expect(page.locator("main h1")).to_be_attached()


def test_a_pipeline_without_a_worker_is_reported(browser: Browser, web_system: WebSystem) -> None:
    content = fill_console(web_system)
    with open_page(browser, web_system, content.addresses["Memory"]) as page:
        expect(page.locator("ol.rows > li").first).to_be_visible()

        web_system.system.workers[-1].kill()

        expect(page.get_by_text("No worker is running.")).to_be_visible(timeout=60_000)
        expect(page.locator("ol.rows > li").first).to_be_visible()
