"""The page /status in Chromium: its charts follow the figures, and a lost bus leaves them."""

import asyncio
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.support.browser import chromium
from tests.support.bundles import make_bundle, make_uid
from tests.support.console import open_page, overflow, save_screenshot
from tests.support.run_worker import deploy
from tests.support.web_system import WebSystem

pytestmark = pytest.mark.slow

NO_BUS = "The bus does not respond. Retrying every 5 seconds."
HOSTILE = "z<script>document.title = 'taken'</script>"


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem(worker=False) as found:
        yield found


@pytest.fixture(scope="module")
def uid(web_system: WebSystem) -> str:
    return web_system.deploy_unserved()


@pytest.fixture(scope="module")
def named(web_system: WebSystem, uid: str) -> WebSystem:
    """Return the server with a second pipeline, whose name is hostile and long."""
    asyncio.run(deploy(web_system.system.root, make_bundle(make_uid(), name=HOSTILE + "w" * 150)))
    return web_system


@pytest.fixture(scope="module")
def browser(named: WebSystem) -> Iterator[Browser]:
    with chromium() as found:
        yield found


def test_charts_follow_the_figures(browser: Browser, web_system: WebSystem, uid: str) -> None:
    with open_page(browser, web_system, "/status", viewport={"width": 1280, "height": 800}) as page:
        waiting = page.get_by_role("img").first
        expect(waiting).to_have_attribute(
            "aria-label", "Waiting: now 0, at most 0 in the last 10 minutes"
        )

        for number in range(7):
            web_system.post(
                f"/v1/pipelines/{uid}/swarms/chat/messages", {"text": f"/write {number}"}
            )

        expect(waiting).to_have_attribute(
            "aria-label", "Waiting: now 7, at most 7 in the last 10 minutes", timeout=10_000
        )
        points = (waiting.locator("polyline").get_attribute("points") or "").split()
        heights = [float(point.split(",")[1]) for point in points]
        assert max(heights) - min(heights) > 50
        save_screenshot(page, "status")
        page.set_viewport_size({"width": 320, "height": 800})
        assert overflow(page) == 0


def test_a_long_hostile_name_is_text_and_fits_a_phone(named: WebSystem, browser: Browser) -> None:
    with open_page(browser, named, "/status", viewport={"width": 320, "height": 800}) as page:
        expect(page.locator("article h3").filter(has_text="<script>")).to_be_visible()
        assert overflow(page) == 0
        page.goto(named.url + "/keys")
        expect(page.locator("#create-key")).to_contain_text("<script>")
        assert overflow(page) == 0


def test_a_lost_bus_is_reported_and_leaves_the_content(
    browser: Browser, web_system: WebSystem
) -> None:
    with open_page(browser, web_system, "/status") as page:
        expect(page.locator("article").first).to_be_visible()

        web_system.system.server.stop(grace_s=5)

        expect(page.locator("#refresh-fault")).to_have_text(NO_BUS)
        expect(page.locator("#status tbody tr").first).to_be_visible()
        expect(page.locator("article").first).to_be_visible()
        web_system.system.server.start()
        expect(page.locator("#refresh-fault")).to_be_hidden()


def test_the_charts_keep_ten_minutes(browser: Browser, web_system: WebSystem) -> None:
    context = browser.new_context()
    page = context.new_page()
    try:
        page.clock.install()
        page.goto(web_system.url + "/status")
        for _ in range(150):
            # The clock also ends requests that take 10 s.
            page.clock.run_for(8_000)
            page.wait_for_function("document.getElementById('refresh-fault').hidden")

        lines = page.get_by_role("img").first.locator("polyline").all()
        points = [point for line in lines for point in (line.get_attribute("points") or "").split()]
        assert 350 < len(points) <= 400
        assert min(float(point.split(",")[0]) for point in points) >= 0
    finally:
        context.close()
