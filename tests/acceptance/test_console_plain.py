"""Statement 9 of the console: every page is readable without scripts, on a phone and zoomed, and
shows hostile names as text. A page over many and large records is small.
"""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.support.browser import chromium
from tests.support.bundles import make_bundle, make_commands, make_uid
from tests.support.console import open_page, overflow, save_screenshot
from tests.support.console_content import PERSON, fill_console, post
from tests.support.pages import deploy_bundle
from tests.support.web_system import WebSystem

pytestmark = pytest.mark.slow

HOSTILE = "<script>document.title = 'taken'</script>"
RTL = "مرحبا بالعالم"
LARGE_TEXT = "a long word " * 80_000
MAX_PAGE_BYTES = 300_000


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem() as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def test_each_page_is_readable_without_scripts(browser: Browser, web_system: WebSystem) -> None:
    content = fill_console(web_system)

    for title, path in content.addresses.items():
        with open_page(browser, web_system, path, java_script_enabled=False) as page:
            expect(page.locator("h1").first).to_be_attached()
            assert len(page.locator("main").inner_text()) > 20, title
            if title == "Record":
                save_screenshot(page, "without-scripts")


def test_lists_page_by_links_without_scripts(browser: Browser, web_system: WebSystem) -> None:
    uid = deploy_bundle(web_system.url, make_bundle(make_uid(), PERSON, *make_commands()))
    for number in range(60):
        post(web_system, f"/v1/pipelines/{uid}/records", {"content": f"note {number:02}"})

    with open_page(
        browser, web_system, f"/pipelines/{uid}/memory", java_script_enabled=False
    ) as page:
        page.get_by_role("link", name="Next page").click()
        expect(page.get_by_role("link", name="note 00")).to_be_visible()
        page.get_by_role("link", name="First page").click()
        expect(page.get_by_role("link", name="note 59")).to_be_visible()


@pytest.mark.parametrize(("width", "zoom"), [(320, 1), (640, 2)], ids=["phone", "1280 px at 200 %"])
def test_hostile_names_are_text_and_nothing_scrolls_sideways(
    browser: Browser, web_system: WebSystem, width: int, zoom: int
) -> None:
    for name in (HOSTILE, RTL, "w" * 200):
        uid = deploy_bundle(
            web_system.url, make_bundle(make_uid(), PERSON, *make_commands(), name=name)
        )
        base = f"/v1/pipelines/{uid}"
        record = {"content": name, "kind": name, "tags": [name], "source": name}
        guid = post(web_system, f"{base}/records", record)["guid"]
        post(web_system, f"{base}/swarms/chat/messages?wait=60", {"text": f"/write {name}"})
        paths = ("", "/memory", f"/memory/{guid}", "/bundle")
        for path in (
            "/",
            "/pipelines",
            "/status",
            "/dead-letters",
            *(f"/pipelines/{uid}{one}" for one in paths),
        ):
            with open_page(
                browser,
                web_system,
                path,
                viewport={"width": width, "height": 800},
                device_scale_factor=zoom,
            ) as page:
                assert page.title() != "taken", path
                assert overflow(page) <= 0, (path, name)


def test_pages_with_large_records_are_small(web_system: WebSystem) -> None:
    uid = deploy_bundle(web_system.url, make_bundle(make_uid(), PERSON, *make_commands()))
    records = [{"content": LARGE_TEXT, "kind": f"k{number}"} for number in range(3)]
    guid, *_ = [post(web_system, f"/v1/pipelines/{uid}/records", one)["guid"] for one in records]

    pages = [
        web_system.get(f"/pipelines/{uid}{path}")
        for path in ("/memory", "/memory?q=long+word", f"/memory/{guid}")
    ]

    assert [page.status for page in pages] == [200] * 3
    assert max(len(page.body) for page in pages) <= MAX_PAGE_BYTES
