"""The page /status in Chromium: hostile names are text, and a lost bus leaves the content."""

import asyncio
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.support.browser import chromium
from tests.support.bundles import make_bundle, make_uid
from tests.support.console import open_page, overflow
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


def test_a_long_hostile_name_is_text_and_fits_a_phone(named: WebSystem, browser: Browser) -> None:
    with open_page(browser, named, "/status", viewport={"width": 320, "height": 800}) as page:
        expect(page.locator("#status tbody th").filter(has_text="<script>")).to_be_visible()
        assert overflow(page) == 0
        page.goto(named.url + "/keys")
        expect(page.locator("#create-key")).to_contain_text("<script>")
        assert overflow(page) == 0


def test_a_lost_bus_is_reported_and_leaves_the_content(
    browser: Browser, web_system: WebSystem
) -> None:
    with open_page(browser, web_system, "/status") as page:
        expect(page.locator("#status tbody tr").first).to_be_visible()

        web_system.system.server.stop(grace_s=5)

        expect(page.locator("#refresh-fault")).to_have_text(NO_BUS)
        expect(page.locator("#status tbody tr").first).to_be_visible()
        web_system.system.server.start()
        expect(page.locator("#refresh-fault")).to_be_hidden()
